"""Life cycle of a gateway process: supervision, heartbeat, event-loop watchdog, graceful stop.

May import the models and the packages below them.
"""
