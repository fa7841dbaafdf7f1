"""Helpers of all tests. Nothing here is a test, except the tests of `launcher`.

Fixtures
    fixtures               pytest's fixtures
    suite_settings, short_timeouts, mixed_exchanges_settings   settings of started gateways
    access_table           which role may use which URL
    errors_page            generates docs/errors.md
    waiting, linear_time   wait for a condition; check that time grows linearly

Servers
    gateway, launcher, commands, editor   starts gateways; forks programs; runs commands; edits
    scripted_upstream      an upstream that sends exactly the bytes of a script
    faulty_upstreams       upstreams that fail, each in its own way
    tested_upstream        answers to the connection test
    certificates, ports, balancer   TLS, ports, a load balancer
    database, test_database, on_postgres, postgres_server, postgres_selection, redis_server
    version_before         the database of the version before
    skew.c                 shifts the clock of a process

Clients
    raw_client             sends any bytes
    official_sdks          the vendors' SDKs
    client_views, openai_reader   read answers as clients do
    background_load, concurrent_clients   many clients at once
    client_keys, api_clients, operator_session, staff_pages   keys; the API; the pages
    metrics                reads `/metrics`

Data
    chat, upstream_answers, anthropic_frames, wire   requests and answers
    calls_in_text, native_calls, native_replies, native_vectors   native formats
    custom_tools, mixed_shapes   tools and messages in the shapes of several APIs
    strategies, mixed_exchanges   random messages; random exchanges with an oracle
    relays, answered_exchanges, journal_entries, stored_exchanges   exchanges without a gateway
"""
