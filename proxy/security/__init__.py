"""Protection against hostile input and leaks, one module for each boundary.

    egress             addresses that the gateway may connect to (SSRF)
    vault              encryption of secrets at rest
    redaction          finds and removes secrets in text, bytes, events and whole streams, also if
                       a secret is split across chunks
    key_variables      which environment variables may hold an upstream's key
    private_file       writes files that only the gateway's user can read
    secret_headers     which headers of an upstream are secret, and how they are masked
    visible_text       shows invisible and control characters of hostile text by name
    content_security   response headers of pages: Content-Security-Policy, Cache-Control
    login_lockout      counts failed logins per address; django-axes counts them per user, with the
                       limits in `athena_site.settings_login`

May import `database` and nothing else of `proxy`.
"""
