"""HTML pages for staff, rendered inside the frame of Django's admin.

One module per page: dashboard, audit list, exchange, failure group, playground, usage, rules,
changes, formats, import and export, and the extra pages of upstreams and client keys. A view reads
the request, calls `proxy.support`, `proxy.audit` or `proxy.configuration`, and fills a template; it
holds no business logic. `access` decides who may open a page. May import every package except
`admin`, `api` and `management`.
"""
