"""What the process reports about itself: log lines and metrics.

May import `security` and `database`.
"""
