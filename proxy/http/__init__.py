"""HTTP towards clients: connections, request bodies and their limits.

Knows nothing of models, keys or upstreams. May import `errors` and the packages below it.
"""
