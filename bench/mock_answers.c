/* The answers of the mock upstream, as OpenRouter would send them: a comment first, then chunks
 * with its extra fields, usage in a chunk of its own, and `[DONE]`. No errors: they are not
 * measured. */
#define _GNU_SOURCE
#include "mock_answers.h"

/* Large enough for "few writes", and never aligned with the events inside. */
#define BULK_CHUNK 8192
#define TEXT_CHUNKS 200
#define SHORT_TEXT_CHUNKS 3
#define ARGUMENT_DELTAS 4000
#define ARGUMENT_BYTES 40000
/* Of arguments whose size a request names: a delta's bytes. */
#define ARGUMENT_PIECE 100
#define MOST_TEXT_CHUNKS 1000000
#define MOST_ARGUMENT_BYTES 100000000
/* Bytes of text in one chunk: two or three tokens. */
#define TEXT_PIECE 12
/* Special tokens arrive cut at every place in the end. */
#define KIMI_PIECE 7

#define ORIGIN                                                                                     \
    "\"id\":\"gen-1763251234-AbCdEfGhIjKlMnOpQrSt\",\"provider\":\"Mock\","                        \
    "\"model\":\"moonshotai/kimi-k2.5\",\"created\":1763251234,"
#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":15012,\"completion_tokens\":380,\"total_tokens\":15392,"         \
    "\"prompt_tokens_details\":{\"cached_tokens\":12000}}"

static const char STREAM_HEAD[] = "HTTP/1.1 200 OK\r\n"
                                  "Content-Type: text/event-stream\r\n"
                                  "Cache-Control: no-cache\r\n"
                                  "X-Request-Id: req-0123456789abcdef\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n";
static const char LAST_CHUNK[] = "0\r\n\r\n";

static const char SENTENCE[] =
    "The quick brown fox jumps over the lazy dog;\n\"quoted\" text, a back\\slash, a caf\xc3\xa9. ";

static const char KIMI_PROSE[] = "I will read the file now. ";
static const char KIMI_SECTION[] =
    "<|tool_calls_section_begin|>"
    "<|tool_call_begin|>functions.Read:0<|tool_call_argument_begin|>"
    "{\"file_path\": \"/home/user/project/src/module/deep/file_name.py\", \"offset\": 120, "
    "\"limit\": 400}<|tool_call_end|>"
    "<|tool_call_begin|>functions.Bash:1<|tool_call_argument_begin|>"
    "{\"command\": \"grep -rn 'needle' src | head -50\", \"description\": \"Search\"}"
    "<|tool_call_end|><|tool_calls_section_end|>";

/* The server-sent events of one stream. */
typedef struct {
    Bytes *items;
    int count;
} Events;

static Answer streamed[128];
static Answer whole;

/* Answers of a size that a request names, made when one first does. */
typedef struct {
    char kind;
    long amount;
    Answer answer;
} Sized;

#define MOST_SIZED 32
static Sized sized[MOST_SIZED];
static int sized_count;

static Bytes *add_bytes(Bytes **items, int *count)
{
    *items = realloc(*items, (*count + 1) * sizeof(Bytes));
    if (!*items) {
        perror("realloc");
        exit(1);
    }
    Bytes *added = &(*items)[(*count)++];
    *added = (Bytes){0};
    return added;
}

static Bytes json_escaped(const char *text, size_t size)
{
    Bytes out = {0};
    bytes_append(&out, "", 0);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            bytes_append(&out, "\\n", 2);
        else {
            if (text[i] == '"' || text[i] == '\\')
                bytes_append(&out, "\\", 1);
            bytes_append(&out, text + i, 1);
        }
    }
    return out;
}

static Events begin_events(void)
{
    Events events = {0};
    bytes_format(add_bytes(&events.items, &events.count), ": OPENROUTER PROCESSING\n\n");
    return events;
}

/* `finish` is JSON: null, or a string with its quotes. */
static void add_chunk(Events *events, const char *delta, const char *finish)
{
    bytes_format(add_bytes(&events->items, &events->count),
                 "data: {" ORIGIN "\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
                 "\"delta\":{\"role\":\"assistant\",%s},\"finish_reason\":%s,"
                 "\"native_finish_reason\":%s,\"logprobs\":null}]}\n\n",
                 delta, finish, finish);
}

static void add_content(Events *events, const char *text, size_t size)
{
    Bytes escaped = json_escaped(text, size), delta = {0};
    bytes_format(&delta, "\"content\":\"%s\"", escaped.data);
    add_chunk(events, delta.data, "null");
    free(escaped.data);
    free(delta.data);
}

static void add_argument(Events *events, const char *text, size_t size)
{
    Bytes escaped = json_escaped(text, size), delta = {0};
    bytes_format(&delta,
                 "\"content\":null,\"tool_calls\":[{\"index\":0,\"type\":\"function\","
                 "\"function\":{\"arguments\":\"%s\"}}]",
                 escaped.data);
    add_chunk(events, delta.data, "null");
    free(escaped.data);
    free(delta.data);
}

static void end_events(Events *events, const char *finish)
{
    add_chunk(events, "\"content\":\"\"", finish);
    bytes_format(add_bytes(&events->items, &events->count),
                 "data: {" ORIGIN "\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
                 "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null,"
                 "\"native_finish_reason\":null,\"logprobs\":null}]," USAGE "}\n\n");
    bytes_format(add_bytes(&events->items, &events->count), "data: [DONE]\n\n");
}

static void append_http_chunk(Bytes *out, const char *data, size_t size)
{
    bytes_format(out, "%zx\r\n", size);
    bytes_append(out, data, size);
    bytes_append(out, "\r\n", 2);
}

static void free_events(Events *events)
{
    for (int i = 0; i < events->count; i++)
        free(events->items[i].data);
    free(events->items);
}

/* One piece: the events in HTTP chunks of BULK_CHUNK bytes. */
static Answer in_bulk(const Events *events)
{
    Answer answer = {.rhythm = AT_ONCE};
    Bytes flat = {0}, *piece = add_bytes(&answer.pieces, &answer.count);
    for (int i = 0; i < events->count; i++)
        bytes_append(&flat, events->items[i].data, events->items[i].size);
    bytes_format(piece, "%s", STREAM_HEAD);
    for (size_t at = 0; at < flat.size; at += BULK_CHUNK) {
        size_t left = flat.size - at;
        append_http_chunk(piece, flat.data + at, left < BULK_CHUNK ? left : BULK_CHUNK);
    }
    bytes_format(piece, "%s", LAST_CHUNK);
    free(flat.data);
    return answer;
}

/* A piece for each of the first `count` events, an HTTP chunk each. */
static Answer one_by_one(const Events *events, int count, Rhythm rhythm)
{
    Answer answer = {.rhythm = rhythm, .endless = count < events->count};
    for (int i = 0; i < count; i++) {
        Bytes *piece = add_bytes(&answer.pieces, &answer.count);
        if (i == 0)
            bytes_format(piece, "%s", STREAM_HEAD);
        append_http_chunk(piece, events->items[i].data, events->items[i].size);
        if (i == events->count - 1)
            bytes_format(piece, "%s", LAST_CHUNK);
    }
    return answer;
}

/* `count` chunks of running text. */
static Events text_events(int count)
{
    Events events = begin_events();
    size_t length = strlen(SENTENCE), at = 0;
    for (int i = 0; i < count; i++) {
        /* Never cut inside the two bytes of the é. */
        size_t end = at + TEXT_PIECE < length ? at + TEXT_PIECE : length;
        if ((SENTENCE[end] & 0xc0) == 0x80)
            end++;
        add_content(&events, SENTENCE + at, end - at);
        at = end == length ? 0 : end;
    }
    end_events(&events, "\"stop\"");
    return events;
}

static Events kimi_events(void)
{
    Events events = begin_events();
    add_content(&events, KIMI_PROSE, strlen(KIMI_PROSE));
    size_t length = strlen(KIMI_SECTION);
    for (size_t at = 0; at < length; at += KIMI_PIECE) {
        size_t left = length - at;
        add_content(&events, KIMI_SECTION + at, left < KIMI_PIECE ? left : KIMI_PIECE);
    }
    /* Upstreams that do not read the tokens do not know that the model called a tool. */
    end_events(&events, "\"stop\"");
    return events;
}

/* A call with about `bytes` of arguments, in `deltas` pieces. */
static Events argument_events(size_t bytes, size_t deltas)
{
    Events events = begin_events();
    add_chunk(&events,
              "\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_0123456789abcdef\","
              "\"type\":\"function\",\"function\":{\"name\":\"Write\",\"arguments\":\"\"}}]",
              "null");
    Bytes argument = {0};
    bytes_format(&argument, "{\"file_path\": \"/home/user/project/out.py\", \"content\": \"");
    while (argument.size < bytes - 2)
        bytes_format(&argument, "def double(x): return x * 2 + 1  # note\\n");
    bytes_format(&argument, "\"}");
    for (size_t i = 0; i < deltas; i++) {
        size_t from = i * argument.size / deltas;
        size_t to = (i + 1) * argument.size / deltas;
        add_argument(&events, argument.data + from, to - from);
    }
    free(argument.data);
    end_events(&events, "\"tool_calls\"");
    return events;
}

/* A's text, long enough that the whole answer has 2 KB. */
#define WHOLE_SENTENCES 18

static Answer whole_text(void)
{
    Bytes text = {0}, json = {0};
    for (int i = 0; i < WHOLE_SENTENCES; i++)
        bytes_format(&text, "%s", SENTENCE);
    Bytes escaped = json_escaped(text.data, text.size);
    bytes_format(&json,
                 "{" ORIGIN "\"object\":\"chat.completion\",\"choices\":[{\"index\":0,"
                 "\"logprobs\":null,\"finish_reason\":\"stop\",\"native_finish_reason\":\"stop\","
                 "\"message\":{\"role\":\"assistant\",\"content\":\"%s\",\"refusal\":null,"
                 "\"reasoning\":null}}]," USAGE "}",
                 escaped.data);
    Answer answer = plain_answer("200 OK", json.data);
    free(text.data);
    free(escaped.data);
    free(json.data);
    return answer;
}

Answer plain_answer(const char *status, const char *json)
{
    Answer answer = {.rhythm = AT_ONCE};
    bytes_format(add_bytes(&answer.pieces, &answer.count),
                 "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                 "X-Request-Id: req-0123456789abcdef\r\nContent-Length: %zu\r\n\r\n%s",
                 status, strlen(json), json);
    return answer;
}

void make_answers(void)
{
    int pieces = (strlen(SENTENCE) + TEXT_PIECE - 1) / TEXT_PIECE;
    Events same_as_whole = text_events(WHOLE_SENTENCES * pieces);
    Events text = text_events(TEXT_CHUNKS), little = text_events(SHORT_TEXT_CHUNKS);
    Events kimi = kimi_events(), arguments = argument_events(ARGUMENT_BYTES, ARGUMENT_DELTAS);
    whole = whole_text();
    streamed['A'] = in_bulk(&same_as_whole);
    streamed['B'] = in_bulk(&text);
    streamed['C'] = one_by_one(&text, text.count, ONE_PER_TURN);
    streamed['D'] = one_by_one(&text, text.count, ONE_PER_INTERVAL);
    streamed['E'] = in_bulk(&kimi);
    streamed['F'] = in_bulk(&arguments);
    streamed['G'] = in_bulk(&little);
    /* The comment and one chunk. */
    streamed['H'] = one_by_one(&text, 2, AT_ONCE);
}

const Answer *streamed_answer(char scenario)
{
    if (scenario < 'A' || scenario > 'H')
        return NULL;
    return &streamed[(int)scenario];
}

const Answer *sized_answer(char kind, long amount)
{
    long most = kind == 'T' ? MOST_TEXT_CHUNKS : kind == 'U' ? MOST_ARGUMENT_BYTES : 0;
    if (amount < 1 || amount > most)
        return NULL;
    for (int i = 0; i < sized_count; i++)
        if (sized[i].kind == kind && sized[i].amount == amount)
            return &sized[i].answer;
    if (sized_count == MOST_SIZED)
        return NULL;
    Events events = kind == 'T' ? text_events(amount)
                                : argument_events(amount, (amount - 1) / ARGUMENT_PIECE + 1);
    Sized *made = &sized[sized_count++];
    *made = (Sized){kind, amount, in_bulk(&events)};
    free_events(&events);
    return &made->answer;
}

const Answer *whole_answer(void)
{
    return &whole;
}
