"""Django admin of the configuration, one module per table.

May import every other package except `proxy.api`.
"""

from django.contrib import admin

from proxy.admin import definitions, formats, gateway, keys, routes, upstreams

admin.site.site_header = admin.site.site_title = "Athena"
admin.site.index_title = "Home"
admin.site.site_url = None  # there is no public site to link to

__all__ = ["definitions", "formats", "gateway", "keys", "routes", "upstreams"]
