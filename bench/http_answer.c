/* Reads bodies with a length, and chunked ones without trailers: all that the servers under test
 * send. Anything else is BROKEN. */
#define _GNU_SOURCE
#include "http_answer.h"

void answer_begin(HttpAnswer *answer)
{
    answer->state = HEAD;
    answer->status = 0;
    answer->closing = false;
    answer->in.size = answer->body.size = 0;
}

/* False if the head is not complete. */
static bool take_head(HttpAnswer *answer)
{
    long end = bytes_find(&answer->in, 0, "\r\n\r\n");
    if (end < 0)
        return false;
    char *head = answer->in.data;
    head[end] = 0;
    char *length = strcasestr(head, "\ncontent-length:");
    answer->status = end > 12 ? atoi(head + strlen("HTTP/1.1 ")) : 0;
    answer->closing = strcasestr(head, "\nconnection: close") != NULL;
    if (strcasestr(head, "\ntransfer-encoding: chunked")) {
        answer->state = CHUNK_SIZE;
    } else if (length) {
        answer->left = strtoul(length + strlen("\ncontent-length:"), NULL, 10);
        answer->state = answer->left ? SIZED : DONE;
    } else {
        answer->state = BROKEN;
    }
    bytes_drop(&answer->in, end + 4);
    return true;
}

/* Reads the size at `at`, and moves on; false if it is not complete. */
static bool take_chunk_size(HttpAnswer *answer, size_t *at)
{
    long line_end = bytes_find(&answer->in, *at, "\r\n");
    if (line_end < 0)
        return false;
    size_t size = strtoul(answer->in.data + *at, NULL, 16);
    /* An empty chunk is the last one, and an empty line follows. */
    if (size == 0 && (size_t)line_end + 4 > answer->in.size)
        return false;
    answer->left = size + 2;
    answer->state = size ? CHUNK : DONE;
    *at = line_end + (size ? 2 : 4);
    return true;
}

/* Takes what is there of a chunk with its line end, or of a body with a length. */
static void take_content(HttpAnswer *answer, size_t *at)
{
    size_t line_end = answer->state == CHUNK ? 2 : 0;
    size_t there = answer->in.size - *at;
    size_t size = there < answer->left ? there : answer->left;
    size_t content = answer->left > line_end ? answer->left - line_end : 0;
    bytes_append(&answer->body, answer->in.data + *at, size < content ? size : content);
    *at += size;
    answer->left -= size;
    if (!answer->left)
        answer->state = answer->state == CHUNK ? CHUNK_SIZE : DONE;
}

void answer_understand(HttpAnswer *answer)
{
    size_t at = 0;
    if (answer->state == HEAD && !take_head(answer))
        return;
    while (answer->state < DONE && at < answer->in.size) {
        if (answer->state != CHUNK_SIZE)
            take_content(answer, &at);
        else if (!take_chunk_size(answer, &at))
            break;
    }
    bytes_drop(&answer->in, at);
}
