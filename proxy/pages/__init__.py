"""HTML pages for staff, rendered inside the frame of Django's admin.

    access             the permission check and the frame of every page
    dashboard          tiles, charts and tables for a time range
    charts             bars and lines as coordinates
    number_format      numbers with a unit and a link to their exchanges
    audit_list         failure groups and exchanges, with the filter form
    exchange           one exchange: facts, replays, an override from a replay
    exchange_columns   its model output, decoded events and client output side by side
    failure_group      one group of failures: state, assignee, comments, replay of all
    playground         decodes pasted model output
    usage              a developer's own keys
    rules              which route and format apply to a model name
    changes            recent edits, and which of them can be undone
    formats            a built-in format as a definition, read-only
    import_export      the YAML document
    upstream           connection test, list of models, Claude's names
    client_keys        shows a new key once; rotates and revokes keys
    logout_everywhere  ends all sessions of a user
    error_pages        400, 404 and 500

A view reads the request, calls `proxy.support`, `proxy.audit` or `proxy.configuration`, and fills a
template; it holds no business logic. May import every package except `admin`, `api` and
`management`.
"""
