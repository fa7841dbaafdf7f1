/* A closed-loop client: every connection, kept alive, sends the same request again as soon as it
 * has the whole answer to the one before. One thread, epoll. Prints one line of JSON; times are in
 * milliseconds.
 *
 *     loadgen [-c CONNECTIONS] [-n REQUESTS] [-m MARK] [-e END] [-H HEADER]... PORT PATH BODYFILE
 *     loadgen -s [-c CONNECTIONS] [-m MARK] [-H HEADER]... PORT PATH BODYFILE
 *
 *     -m MARK  its first appearance in an answer is the first event; each one counts as an event
 *     -e END   an answer without it is a failure, as is every status but 200
 *     -s       hold: opens a stream on each connection, prints how many have shown MARK as soon as
 *              all have, or after 60 s, and keeps them open until its standard input ends
 *
 * The beginning of the first failed answer goes to standard error. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_answer.h"

#define READ_SIZE 65536
/* A run that takes longer is broken off, and what is missing has failed. */
#define LIMIT 120.0
#define HOLD_LIMIT 60.0

typedef struct {
    int socket; /* -1: none */
    bool busy;
    size_t sent; /* of the request */
    HttpAnswer answer;
    size_t searched; /* how much of its body has been searched for the mark */
    double began;
    double first_event; /* 0: none yet */
    long events;
} Client;

static const char *mark = "", *end_mark = "";
static Bytes request;
static int poller, port;
static long requests = 100, started, finished, succeeded, events_seen, timed_events;
static double *latencies, *first_events;

static void watch(Client *client, int operation, bool writing)
{
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = client};
    epoll_ctl(poller, operation, client->socket, &event);
}

static bool dial(Client *client)
{
    int yes = 1;
    client->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    watch(client, EPOLL_CTL_ADD, true);
    return !connect(client->socket, (void *)&address, sizeof address) || errno == EINPROGRESS;
}

/* Sends what the socket takes of the request. False if the connection is broken. */
static bool send_request(Client *client)
{
    while (client->sent < request.size) {
        ssize_t size = write(client->socket, request.data + client->sent,
                             request.size - client->sent);
        if (size < 0) {
            bool later = errno == EAGAIN || errno == ENOTCONN;
            watch(client, EPOLL_CTL_MOD, true);
            return later;
        }
        client->sent += size;
    }
    watch(client, EPOLL_CTL_MOD, false);
    return true;
}

/* Begins the next request, if there is one left. */
static void begin(Client *client)
{
    client->busy = started < requests;
    if (!client->busy)
        return;
    started++;
    answer_begin(&client->answer);
    client->sent = client->searched = 0;
    client->events = 0;
    client->first_event = 0;
    client->began = now();
    bool connected = client->socket >= 0 ? send_request(client) : dial(client);
    if (!connected) {
        perror("loadgen: connection");
        exit(1);
    }
}

static void finish(Client *client)
{
    double time = now();
    HttpAnswer *answer = &client->answer;
    bool good = answer->state == DONE && answer->status == 200
                && (!*end_mark || bytes_find(&answer->body, 0, end_mark) >= 0);
    if (good) {
        latencies[succeeded++] = time - client->began;
        if (client->first_event)
            first_events[timed_events++] = client->first_event - client->began;
        events_seen += client->events;
    } else if (finished == succeeded) {
        fprintf(stderr, "loadgen: first failure: status %d, %zu bytes: %.300s\n", answer->status,
                answer->body.size, answer->body.size ? answer->body.data : "");
    }
    finished++;
    if (answer->state != DONE || answer->closing) {
        close(client->socket);
        client->socket = -1;
    }
    begin(client);
}

/* Counts the marks in what is new of the body. */
static void count_events(Client *client)
{
    const Bytes *body = &client->answer.body;
    size_t length = strlen(mark);
    long at;
    if (!length)
        return;
    while ((at = bytes_find(body, client->searched, mark)) >= 0) {
        if (!client->first_event)
            client->first_event = now();
        client->events++;
        client->searched = at + length;
    }
    /* The next mark may have begun in the last bytes. */
    if (body->size >= length && client->searched < body->size - length + 1)
        client->searched = body->size - length + 1;
}

/* Reads until nothing is there or the answer is complete. */
static void receive(Client *client)
{
    HttpAnswer *answer = &client->answer;
    while (answer->state < DONE) {
        bytes_reserve(&answer->in, READ_SIZE);
        ssize_t size = read(client->socket, answer->in.data + answer->in.size, READ_SIZE);
        if (size < 0 && errno == EAGAIN)
            return;
        if (size > 0) {
            answer->in.size += size;
            answer->in.data[answer->in.size] = 0;
            answer_understand(answer);
            count_events(client);
        } else {
            answer->state = BROKEN;
        }
    }
    finish(client);
}

/* Waits at most `milliseconds`, and attends to every connection that has something. */
static void turn(int milliseconds)
{
    struct epoll_event events[256];
    int ready = epoll_wait(poller, events, 256, milliseconds);
    for (int i = 0; i < ready; i++) {
        Client *client = events[i].data.ptr;
        if (!client->busy)
            continue;
        if ((events[i].events & EPOLLOUT) && !send_request(client)) {
            client->answer.state = BROKEN;
            finish(client);
        } else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            receive(client);
        }
    }
}

static void hold(Client *clients, int connections)
{
    double limit = now() + HOLD_LIMIT;
    int held = 0;
    while (held < connections && now() < limit) {
        turn(100);
        held = 0;
        for (int i = 0; i < connections; i++)
            held += clients[i].first_event > 0;
    }
    printf("%d\n", held);
    fflush(stdout);
    while (getchar() != EOF)
        ;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* A quantile of sorted seconds, in milliseconds. */
static double quantile(const double *sorted, long count, double share)
{
    if (!count)
        return 0;
    long at = share * count;
    return sorted[at < count ? at : count - 1] * 1e3;
}

static void report(double seconds)
{
    qsort(latencies, succeeded, sizeof *latencies, ascending);
    qsort(first_events, timed_events, sizeof *first_events, ascending);
    printf("{\"requests\":%ld,\"failed\":%ld,\"seconds\":%.4f,\"requests_per_second\":%.2f,"
           "\"events_per_second\":%.1f,\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,"
           "\"first_event_p50\":%.3f,\"first_event_p99\":%.3f}\n",
           requests, requests - succeeded, seconds, succeeded / seconds, events_seen / seconds,
           quantile(latencies, succeeded, 0.5), quantile(latencies, succeeded, 0.9),
           quantile(latencies, succeeded, 0.99), quantile(first_events, timed_events, 0.5),
           quantile(first_events, timed_events, 0.99));
}

static Bytes file_content(const char *path)
{
    Bytes content = {0};
    char buffer[READ_SIZE];
    size_t size;
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    while ((size = fread(buffer, 1, READ_SIZE, file)))
        bytes_append(&content, buffer, size);
    fclose(file);
    return content;
}

static void usage(void)
{
    fprintf(stderr, "usage: loadgen [-s] [-c CONNECTIONS] [-n REQUESTS] [-m MARK] [-e END] "
                    "[-H HEADER]... PORT PATH BODYFILE\n");
    exit(2);
}

int main(int count, char **arguments)
{
    int option, connections = 1;
    bool holding = false;
    Bytes headers = {0};
    bytes_append(&headers, "", 0);
    while ((option = getopt(count, arguments, "sc:n:m:e:H:")) != -1) {
        switch (option) {
        case 's': holding = true; break;
        case 'c': connections = atoi(optarg); break;
        case 'n': requests = atol(optarg); break;
        case 'm': mark = optarg; break;
        case 'e': end_mark = optarg; break;
        case 'H': bytes_format(&headers, "%s\r\n", optarg); break;
        default: usage();
        }
    }
    if (count - optind != 3 || connections < 1 || requests < 1)
        usage();
    signal(SIGPIPE, SIG_IGN);
    port = atoi(arguments[optind]);
    Bytes body = file_content(arguments[optind + 2]);
    bytes_format(&request,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n%s\r\n",
                 arguments[optind + 1], port, body.size, headers.data);
    bytes_append(&request, body.data, body.size);

    if (holding)
        requests = connections;
    latencies = calloc(requests, sizeof *latencies);
    first_events = calloc(requests, sizeof *first_events);
    Client *clients = calloc(connections, sizeof *clients);
    if (!latencies || !first_events || !clients) {
        perror("calloc");
        return 1;
    }
    poller = epoll_create1(0);
    double start = now();
    for (int i = 0; i < connections; i++) {
        clients[i].socket = -1;
        begin(&clients[i]);
    }
    if (holding) {
        hold(clients, connections);
        return 0;
    }
    while (finished < requests && now() < start + LIMIT)
        turn(200);
    report(now() - start);
    return 0;
}
