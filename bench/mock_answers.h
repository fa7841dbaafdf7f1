/* What the mock upstream answers, made once at its start. */
#ifndef MOCK_ANSWERS_H
#define MOCK_ANSWERS_H

#include <stdbool.h>

#include "bytes.h"

typedef enum {
    AT_ONCE,          /* every piece as soon as the socket takes it */
    ONE_PER_TURN,     /* a write each, the event loop's turn between two of them */
    ONE_PER_INTERVAL, /* a write each, 10 ms apart */
} Rhythm;

typedef struct {
    Bytes *pieces; /* HTTP bytes; the head is at the front of the first */
    int count;
    Rhythm rhythm;
    bool endless; /* after the last piece: silence, until the client leaves */
} Answer;

/* Makes every answer. */
void make_answers(void);

/* The streamed answer of a scenario, 'A' to 'H'; NULL if there is no such scenario. */
const Answer *streamed_answer(char scenario);

/* As B or F, of any size: 'T', so many chunks of text, or 'U', so many bytes of arguments in deltas of
 * a hundred. NULL if that is too much. */
const Answer *sized_answer(char kind, long amount);

/* A's answer as one JSON object. */
const Answer *whole_answer(void);

/* A short answer without a model in it: the status line's text, and a JSON body. */
Answer plain_answer(const char *status, const char *json);

#endif
