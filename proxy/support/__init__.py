"""Tools for support staff: exchange list, failure texts, replay, playground, test vectors.

May import `audit`, `configuration` and the packages below them.
"""
