"""The life of a gateway process: start, heartbeat, supervision, drain.

May import the models and the packages below them.
"""
