"""Benchmarks. `make bench` measures time; `make test` checks counts of calls.

Counts
    work               calls per request, compared with those recorded in work.json
    cases, corpus      what is counted, and the answers in it
    inside             the gateway without sockets
    callgrind          instructions instead of calls

Time
    gateway            the gateway, a pass-through and other gateways in one run
    translate, growth, share, audit   translation alone; by size and workers; parts of a request;
                       queries with a million rows
    peers, targets     other gateways; targets
    passthrough        the byte pass-through that all are compared with
    load, loadgen.c    sends requests
    mock_upstream.c, mock_answers.c, http_answer.c   the upstream and its answers
    scenarios, bodies, exchanges   what is sent, and the rows of the audit
    answers            checks each gateway's answers
    programs, servers, processes   compiles, starts and observes the programs

Results
    results, report, plot   a run as JSON, Markdown and SVG
    readme             copies the last run into the documents
"""
