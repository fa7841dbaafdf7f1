"""The record of every exchange: capture, journal, rows, transcripts, traffic sums, retention.

May import `configuration`, the models and the packages below them.
"""
