"""Load with faults on both sides for a long time, after which only rows may remain.

`make soak`; CONTRIBUTING.md says how to read its report.
"""
