"""Connections to upstreams: client, connection pool, error answers.

May import `configuration` and the packages below it.
"""
