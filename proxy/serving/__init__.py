"""The hot path: a request from its admission to the last byte of its answer.

    handler, request     ASGI handler of the hot path with its 404 and 405, and the request object
                         of its views
    views                endpoints: conversations, token counts, model lists, health and readiness;
                         compressed requests are rejected
    admission            checks key, quota and loops before the body is read; starts the audit, with
                         the content unless `x-athena-capture` is off
    authentication       looks up client keys
    model_access         checks the models that a key may use, in every field
    quota                slots for concurrent requests, per node and per key
    rate, redis_rate     requests per minute: in memory, or in Redis with fallback to memory
    retry                repeats an attempt whose failure allows it once, then tries the fallback;
                         records each failed attempt
    attempt              one attempt at one upstream, until its answer starts; a whole answer up to
                         `answer_bytes`
    relay                decodes, records and sends every read; pings; the end of a stream; collects
                         a stream into a whole answer up to `answer_bytes`
    deadlines            idle, progress and total timeouts of an answer, and when a ping is due
    revocation           aborts open answers of revoked keys
    error_response       the only place that turns exceptions into HTTP, with a status that the
                         client's dialect knows; `proxy.errors` has the status of each code
    model_list, metrics_view, demo, upstream_test    other endpoints, and the connection test
    runtime              everything that one server process holds, and what of it is degraded

Never touches the database while it serves. May import every package below it: `audit`,
`upstreams`, `configuration`, `process`, `http`.
"""
