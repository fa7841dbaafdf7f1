"""HTTP towards clients: connections, request bodies and their limits.

    protocol          the server's HTTP/1.1 connection: framing, header limits, pipelining; aborts
                      clients that stop reading; answers what it rejects itself
    body              reads a body with a maximum size and a minimum rate; slow ones time out
    request_limits    the limits as values
    direct_writer     writes to a client from a callback, without waking the request's task
    page_body_limit   the same limits for pages and the management API

Knows nothing about models, keys or upstreams. May import `errors` and the packages below it.
"""
