"""HTTP client for upstreams.

    client           entry point: a request's URL, and its headers: the operator's, and those of the
                     client that are forwarded; its answer, or the failure
    pool             keeps, reuses and replaces connections; TLS and DNS
    connection       one HTTP/1.1 connection
    error_answers    an upstream's error status, body and `retry-after`, as the client gets them
    httpx_client     the alternative transport, for HTTP proxies

Retries and fallbacks belong to `serving`, the check of addresses to `security.egress`. May import
`configuration` and the packages below it.
"""
