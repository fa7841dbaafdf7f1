"""Protection against hostile input and leaks: addresses, secrets, pages, logins.

One module for each boundary: outgoing connections (egress), secrets at rest (vault), secrets in
text and headers (redaction, secret_headers), hostile characters and page headers, failed logins.
May import `database` and nothing else of `proxy`.
"""
