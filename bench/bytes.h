/* A growing run of bytes, for the mock upstream and the load generator. Running out of memory ends
 * the program: a benchmark has nothing better to do. */
#ifndef BYTES_H
#define BYTES_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    char *data;
    size_t size;
    size_t capacity;
} Bytes;

/* Makes room for `more` bytes after those that are there, and one for a terminating zero. */
static inline void bytes_reserve(Bytes *bytes, size_t more)
{
    size_t needed = bytes->size + more + 1;
    if (needed <= bytes->capacity)
        return;
    size_t capacity = bytes->capacity ? bytes->capacity : 1024;
    while (capacity < needed)
        capacity *= 2;
    bytes->data = realloc(bytes->data, capacity);
    if (!bytes->data) {
        perror("realloc");
        exit(1);
    }
    bytes->capacity = capacity;
}

static inline void bytes_append(Bytes *bytes, const char *data, size_t size)
{
    bytes_reserve(bytes, size);
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    bytes->data[bytes->size] = 0;
}

__attribute__((format(printf, 2, 3)))
static inline void bytes_format(Bytes *bytes, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    bytes_reserve(bytes, size);
    vsnprintf(bytes->data + bytes->size, size + 1, format, again);
    bytes->size += size;
    va_end(again);
    va_end(arguments);
}

/* Takes `size` bytes away from the front. */
static inline void bytes_drop(Bytes *bytes, size_t size)
{
    memmove(bytes->data, bytes->data + size, bytes->size - size);
    bytes->size -= size;
    bytes->data[bytes->size] = 0;
}

/* Where `text` begins at or after `from`, or -1. */
static inline long bytes_find(const Bytes *bytes, size_t from, const char *text)
{
    if (from >= bytes->size)
        return -1;
    char *found = memmem(bytes->data + from, bytes->size - from, text, strlen(text));
    return found ? found - bytes->data : -1;
}

/* Seconds on a clock that never goes back. */
static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

#endif
