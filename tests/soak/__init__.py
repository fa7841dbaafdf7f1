"""Load with faults on both sides for a long time, after which only rows may remain.

run        warm-up, load and pauses; then resources must be as before
clients    clients that leave early, read slowly or send garbage
upstream   an upstream that answers or fails at random
measure    memory, threads and descriptors

`make soak`; CONTRIBUTING.md says how to read its report.
"""
