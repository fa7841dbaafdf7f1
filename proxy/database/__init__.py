"""Database infrastructure: thread connections, server time, outages, schema versions.

Queries belong to the packages that need them. May import nothing else of `proxy`.
"""
