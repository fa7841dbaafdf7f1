"""HTTP client for upstreams: connection pool, connections, errors and their translation.

`client` is the entry point. Retries and fallbacks belong to `serving`; which addresses may be
connected to, to `security.egress`. May import `configuration` and the packages below it.
"""
