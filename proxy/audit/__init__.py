"""Audit log of exchanges: capture, sampling, journal, rows, transcripts, failure groups, metrics,
traffic sums and retention.

May import `configuration`, the models and the packages below them.
"""
