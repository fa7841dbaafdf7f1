"""Tools for support staff, without pages: filters and pages of the exchange list, failure texts,
replay, playground, test vectors and curl commands.

May import `audit`, `configuration` and the packages below them.
"""
