"""Database access of the gateway: connections, server time, outages and schema versions.

May import nothing else of `proxy`.
"""
