"""The management API: the pages' data and actions for programs. It is separate from /v1.

    row_views              reads, edits and reverts one row; compares `If-Match`
    configuration_views    one class per table; client keys: create, revoke, rotate
    resolution_views       the configuration's version, and the route of a model name
    audit_views            exchanges, transcripts, replays and failure groups
    audit_serializers, configuration_serializers   request and response types
    authentication         tokens
    permissions            who may use an endpoint
    json_parser            request bodies; rejects what a database or a response cannot hold
    pagination             cursors of lists
    errors                 error responses
    openapi, docs          the schema, and the page that shows it
    urls                   the URLs

An endpoint does nothing that a page cannot do. May import every other package.
"""
