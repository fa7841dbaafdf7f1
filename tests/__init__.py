"""Tests. `athena_site`, `bench`, `formats` and `proxy` mirror the source.

support    helpers of all tests
system     tests of several processes: drain, outages, two nodes, upgrades
browser    the pages in Chromium
e2e        the real Claude Code and Vercel's SDK
soak       minutes of load with faults on both sides
fuzz       hostile input
conftest   the database of the suite; order and selection of tests
"""
