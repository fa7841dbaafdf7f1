"""Protection of secrets, addresses and pages: sealing, redaction, egress checks, login lockout.

May import `database`.
"""
