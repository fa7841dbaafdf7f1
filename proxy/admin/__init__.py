"""The operators' pages, one module for each thing that they steer."""

from django.contrib import admin

from proxy.admin import formats, gateway, keys, routes, upstreams

admin.site.site_header = admin.site.site_title = "Athena"
admin.site.index_title = "Home"
admin.site.site_url = None  # there is no other site than this

__all__ = ["formats", "gateway", "keys", "routes", "upstreams"]
