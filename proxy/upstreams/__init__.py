"""HTTP client for upstreams.

    client           entry point: a request's URL, and its headers: the operator's, and those of the
                     client that are forwarded; its answer, or the failure
    pool             keeps, reuses and replaces connections; TLS and DNS
    connection       one HTTP/1.1 connection; tells data without a request from a server's notice
                     that the connection was idle
    error_answers    an upstream's error status and body, as the client gets them; which statuses
                     may be tried again
    answer_headers   the headers of answers that the client gets; `retry-after`; removes credentials
                     that an upstream repeats in a header or a message
    httpx_client     the alternative transport, for HTTP proxies

Attempts and fallbacks are made in `serving.retry`; `security.egress` checks addresses. May import
`configuration` and the packages below it.
"""
