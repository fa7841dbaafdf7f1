"""Observability of a process.

    log_format   log lines as JSON or text, with the request id and without secrets
    log_writer   writes log lines from a bounded queue, so that no request waits for the log
    metrics      the Prometheus metrics
    descriptors  reports a process that runs out of file descriptors

Formats and writes; callers decide what is logged and counted. May import `security` and `database`.
"""
