"""The life of a client request: views, admission, relay, attempts, retries, deadlines.

May import everything below it; pages and the API do not use it except to test an upstream.
"""
