"""The configuration: reading, changing and explaining it.

    snapshot, upstream        the immutable copy that requests use; sorts routes and overrides by
                              priority
    live                      polls for new versions, loads the snapshot, and knows its age, which
                              readiness depends on
    saved_rows                the last configuration on disk, for a start during an outage; ignores
                              a file that others could have changed
    patterns                  matches model names with the patterns of routes and overrides
    routing                   model name → route, upstream, format and limits; the precedence; the
                              names for `/v1/models`; removes the suffix `[1m]`
    loop_guard                stops a gateway from calling itself
    editing                   the only way to change rows: lock, version check against concurrent
                              edits, validation, save, history record; keeps an upstream's stored
                              secrets from the server of a new address
    history                   lists changes, and restores old states
    client_keys               revokes and rotates client keys
    bootstrap                 first rows from environment variables
    document                  export and import as YAML
    preview                   which models a change would affect
    explain                   which rule wins for a model name, and why
    diagnostics               errors in the current configuration
    fields                    the editable fields of each table, for the document and the API
    upstream_presets          presets of the upstream form
    claude_code               what Claude Code is told: context window, permission mode
    claude_names              routes that let one upstream answer for Claude's names

May import the models and the packages below them.
"""
