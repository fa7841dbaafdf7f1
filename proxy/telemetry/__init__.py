"""Observability of a process: log lines and Prometheus metrics.

Formats and writes; callers decide what is logged and counted. May import `security` and `database`.
"""
