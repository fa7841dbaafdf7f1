"""Django admin of the configuration.

    base           what all forms share: preview, warning before a newer change is overwritten,
                   history and revert, enable and disable
    upstreams, routes, formats, gateway   one table each
    keys           client keys; makes one key of a form that was sent twice
    definitions    operators' formats, with the trial of one that is not saved
    definition_fields   a definition as fields of a form
    range_hints    help texts with the range and default of a number

May import every other package except `proxy.api`.
"""

from django.contrib import admin

from proxy.admin import definitions, formats, gateway, keys, routes, upstreams

admin.site.site_header = admin.site.site_title = "Athena"
admin.site.index_title = "Home"
admin.site.site_url = None  # there is no public site to link to

__all__ = ["definitions", "formats", "gateway", "keys", "routes", "upstreams"]
