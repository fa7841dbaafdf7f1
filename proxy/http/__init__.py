"""HTTP towards clients: connections, request bodies and their limits, responses.

Knows nothing of models or upstreams. May import `telemetry`, `security` and `database`.
"""
