"""The management API: what support staff and operators see and do on their pages, for programs.

Serializers say what goes in and what comes out, `access` says who may, and views do nothing that a
page does not. The gateway's own endpoints are no part of it.
"""
