/* A mock of an OpenAI-dialect upstream, fast enough never to be what is measured: one thread,
 * epoll, and answers that were made before the first request.
 *
 *     mock_upstream PORT [--whole]
 *
 * Every POST is a chat completion, whatever its path. The marker BENCH-SCENARIO:<letter>, anywhere
 * in its body, chooses the answer, so that it survives every gateway and change of model names:
 *
 *     A  a whole answer of 2 KB; the same text in chunks if a stream is asked for
 *     B  200 chunks of text in few writes      E  Kimi's special-token tool calls
 *     C  the same, a write each                F  40 KB of tool arguments in 4,000 deltas
 *     D  the same, a write each 10 ms          G  3 chunks: the fixed cost of a stream
 *                                              H  one chunk, then silence
 *
 * T<count> and U<bytes> are as B and F, of that size, for seeing how work grows.
 *
 * A body that does not ask for a stream gets A's whole answer. With --whole, A is never streamed,
 * as by upstreams that ignore "stream". Requests need a Content-Length. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_answers.h"

#define INTERVAL 0.010
#define MAX_CONNECTIONS 4096
#define READ_SIZE 65536
#define MARKER "BENCH-SCENARIO:"

typedef struct {
    int socket;
    Bytes in;             /* requests, or the beginning of one */
    const Answer *answer; /* being sent; NULL while waiting for a request */
    int piece;            /* the next piece of it */
    size_t sent;          /* how much of that piece is written */
    double due;           /* when, for ONE_PER_INTERVAL */
    bool blocked;         /* the socket takes no more at the moment */
    int place;            /* in `timed`, or -1 */
} Connection;

static int poller;
static bool never_stream_a;
static Answer listing, length_required, unknown_scenario;
/* The connections whose next piece waits for the loop's turn or for the clock. */
static Connection *timed[MAX_CONNECTIONS];
static int timed_count;

static void add_timed(Connection *connection)
{
    connection->place = timed_count;
    timed[timed_count++] = connection;
}

static void remove_timed(Connection *connection)
{
    if (connection->place < 0)
        return;
    Connection *last = timed[--timed_count];
    timed[connection->place] = last;
    last->place = connection->place;
    connection->place = -1;
}

static void close_connection(Connection *connection)
{
    remove_timed(connection);
    close(connection->socket);
    free(connection->in.data);
    free(connection);
}

static void set_blocked(Connection *connection, bool blocked)
{
    if (connection->blocked == blocked)
        return;
    connection->blocked = blocked;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0),
                                .data.ptr = connection};
    epoll_ctl(poller, EPOLL_CTL_MOD, connection->socket, &event);
}

/* Writes one piece, or what the socket takes of it. False if the client has left. */
static bool write_piece(Connection *connection)
{
    const Bytes *piece = &connection->answer->pieces[connection->piece];
    ssize_t written = write(connection->socket, piece->data + connection->sent,
                            piece->size - connection->sent);
    if (written < 0 && errno != EAGAIN)
        return false;
    if (written > 0)
        connection->sent += written;
    if (connection->sent < piece->size) {
        set_blocked(connection, true);
        return true;
    }
    connection->sent = 0;
    connection->piece++;
    connection->due += INTERVAL;
    if (connection->piece == connection->answer->count && !connection->answer->endless) {
        remove_timed(connection);
        connection->answer = NULL;
    }
    return true;
}

/* Writes what may be written at once. False if the client has left. */
static bool write_at_once(Connection *connection)
{
    while (connection->answer && connection->answer->rhythm == AT_ONCE && !connection->blocked
           && connection->piece < connection->answer->count)
        if (!write_piece(connection))
            return false;
    return true;
}

static const Answer *choose_answer(const char *body, size_t size)
{
    bool stream = memmem(body, size, "\"stream\":true", 13)
                  || memmem(body, size, "\"stream\": true", 14);
    char *marker = memmem(body, size, MARKER, strlen(MARKER));
    if (!marker)
        return &unknown_scenario;
    char scenario = marker[strlen(MARKER)];
    if (!stream || (scenario == 'A' && never_stream_a))
        return whole_answer();
    long amount = strtol(marker + strlen(MARKER) + 1, NULL, 10);
    const Answer *answer = amount ? sized_answer(scenario, amount) : streamed_answer(scenario);
    return answer ? answer : &unknown_scenario;
}

/* Takes the next whole request off `in` and chooses its answer; false if there is none yet. */
static bool take_request(Connection *connection)
{
    Bytes *in = &connection->in;
    long head_end = bytes_find(in, 0, "\r\n\r\n");
    if (head_end < 0)
        return false;
    size_t head = head_end + 4, body = 0;
    in->data[head_end] = 0;
    char *length = strcasestr(in->data, "\ncontent-length:");
    in->data[head_end] = '\r';
    bool get = !strncmp(in->data, "GET ", 4);
    if (length)
        body = strtoul(length + strlen("\ncontent-length:"), NULL, 10);
    if (in->size < head + body)
        return false;
    if (get)
        connection->answer = &listing;
    else
        connection->answer = length ? choose_answer(in->data + head, body) : &length_required;
    connection->piece = 0;
    connection->due = now();
    bytes_drop(in, head + body);
    if (connection->answer->rhythm != AT_ONCE)
        add_timed(connection);
    return true;
}

/* Answers the requests that have arrived, one after another. False if the client has left. */
static bool answer_requests(Connection *connection)
{
    while (!connection->answer && take_request(connection))
        if (!write_at_once(connection))
            return false;
    return true;
}

/* Reads all that has arrived. False if the client has left. */
static bool read_requests(Connection *connection)
{
    for (;;) {
        Bytes *in = &connection->in;
        bytes_reserve(in, READ_SIZE);
        ssize_t size = read(connection->socket, in->data + in->size, READ_SIZE);
        if (size > 0) {
            in->size += size;
            in->data[in->size] = 0;
        } else {
            return size < 0 && errno == EAGAIN;
        }
    }
}

/* What epoll reported about one connection. False if the client has left. */
static bool attend(Connection *connection, unsigned events)
{
    if (events & (EPOLLERR | EPOLLHUP))
        return false;
    if ((events & EPOLLIN) && !read_requests(connection))
        return false;
    if (events & EPOLLOUT) {
        set_blocked(connection, false);
        if (!write_at_once(connection))
            return false;
    }
    return answer_requests(connection);
}

static void write_timed(void)
{
    double time = now();
    /* Downwards, because a connection that ends is replaced by the last one. */
    for (int i = timed_count - 1; i >= 0; i--) {
        Connection *connection = timed[i];
        bool early = connection->answer->rhythm == ONE_PER_INTERVAL && connection->due > time;
        if (connection->blocked || early)
            continue;
        if (!write_piece(connection) || !answer_requests(connection))
            close_connection(connection);
    }
}

/* Milliseconds until a timed connection has something to write; -1 for never. */
static int patience(void)
{
    double time = now(), least = -1;
    for (int i = 0; i < timed_count; i++) {
        if (timed[i]->blocked)
            continue;
        double wait = timed[i]->answer->rhythm == ONE_PER_TURN ? 0 : timed[i]->due - time;
        if (wait < 0)
            wait = 0;
        if (least < 0 || wait < least)
            least = wait;
    }
    /* Rounded up: a wait that ends too early would spin. */
    return least < 0 ? -1 : (int)(least * 1000 + 0.999);
}

static void accept_connections(int listener)
{
    int socket, yes = 1;
    while ((socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (socket >= MAX_CONNECTIONS) { /* then there may be more than `timed` can hold */
            close(socket);
            continue;
        }
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        Connection *connection = calloc(1, sizeof *connection);
        if (!connection) {
            perror("calloc");
            exit(1);
        }
        connection->socket = socket;
        connection->place = -1;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(poller, EPOLL_CTL_ADD, socket, &event);
    }
}

static int listen_on(int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1024)) {
        perror("mock_upstream: bind");
        exit(1);
    }
    return listener;
}

int main(int count, char **arguments)
{
    if (count < 2 || count > 3 || (count == 3 && strcmp(arguments[2], "--whole"))) {
        fprintf(stderr, "usage: mock_upstream PORT [--whole]\n");
        return 2;
    }
    never_stream_a = count == 3;
    signal(SIGPIPE, SIG_IGN);
    make_answers();
    listing = plain_answer("200 OK", "{\"object\":\"list\",\"data\":[]}");
    length_required = plain_answer("411 Length Required", "{\"error\":\"no length\"}");
    unknown_scenario = plain_answer("400 Bad Request", "{\"error\":\"no scenario\"}");

    int listener = listen_on(atoi(arguments[1]));
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poller, events, 256, patience());
        for (int i = 0; i < ready; i++) {
            Connection *connection = events[i].data.ptr;
            if (!connection)
                accept_connections(listener);
            else if (!attend(connection, events[i].events))
                close_connection(connection);
        }
        write_timed();
    }
}
