/* One HTTP answer, read as it arrives. */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include <stdbool.h>

#include "bytes.h"

/* What is to be read next; from DONE on, nothing is. */
typedef enum { HEAD, SIZED, CHUNK_SIZE, CHUNK, DONE, BROKEN } State;

typedef struct {
    State state;
    int status;
    bool closing; /* the server will close the connection afterwards */
    Bytes in;     /* read, but not understood yet */
    Bytes body;
    size_t left; /* of the body, or of the chunk and the line end after it */
} HttpAnswer;

/* Forgets the answer before, and keeps its memory. */
void answer_begin(HttpAnswer *answer);

/* Understands what has been added to `in`, as far as it goes. */
void answer_understand(HttpAnswer *answer);

#endif
