"""The management API: the pages' data and actions for programs. It is separate from /v1.

`…_views` hold the endpoints, `…_serializers` the request and response types, `permissions` the
access rules. An endpoint does nothing that a page cannot do. May import every other package.
"""
