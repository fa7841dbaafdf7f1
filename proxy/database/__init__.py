"""Database infrastructure.

    connections   persistent connections of background threads
    clock         the database server's time, shared by all nodes
    outage        recognises outages, and answers pages with 503
    schema        compares the code's migrations with the database's

Queries belong to the packages that need them. May import nothing else of `proxy`.
"""
