"""Load with faults on both sides, for long, and what must be left of it: nothing but rows.

`make soak`; CONTRIBUTING.md says how to read its report.
"""
