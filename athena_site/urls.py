"""All URLs of the gateway.

`proxy.serving.handler` serves those of `proxy.serving`, without Django's middleware; Django serves
the rest.
"""

from django.contrib import admin
from django.urls import include, path

from proxy.pages.audit_list import audit_list
from proxy.pages.changes import changes
from proxy.pages.client_keys import revoke_key, rotate_key
from proxy.pages.dashboard import dashboard
from proxy.pages.exchange import exchange_page, fixture, make_override, replay_exchange
from proxy.pages.failure_group import comment_group, group_page, replay_group, triage_group
from proxy.pages.formats import format_page
from proxy.pages.import_export import (
    configuration_page,
    export_document,
    import_document,
    show_differences,
)
from proxy.pages.logout_everywhere import end_sessions
from proxy.pages.playground import playground
from proxy.pages.rules import rules
from proxy.pages.upstream import claude_names, test_upstream, upstream_models
from proxy.pages.usage import usage
from proxy.serving import demo
from proxy.serving.metrics_view import metrics
from proxy.serving.views import (
    converse,
    count_tokens,
    healthz,
    hello,
    home,
    model,
    models,
    not_found,
    readyz,
)

_exchange = "audit/exchanges/<slug:request_id>/"
_group = "audit/groups/<int:pk>/"
_pages = [
    path("", dashboard, name="dashboard"),  # extends the admin's index page
    path("audit/", audit_list, name="list"),
    path(_exchange, exchange_page, name="exchange"),
    path(f"{_exchange}fixture", fixture, name="fixture"),
    path(f"{_exchange}replay", replay_exchange, name="replay"),
    path(f"{_exchange}override", make_override, name="override"),
    path(_group, group_page, name="group"),
    path(f"{_group}care", triage_group, name="care"),
    path(f"{_group}comment", comment_group, name="comment"),
    path(f"{_group}replay", replay_group, name="replay_group"),
    path("playground/", playground, name="playground"),
    path("usage/", usage, name="usage"),
    path("sessions/end", end_sessions, name="end_sessions"),
]
_configuration = [
    path("configuration/", configuration_page, name="page"),
    path("configuration/export", export_document, name="export"),
    path("configuration/difference", show_differences, name="difference"),
    path("configuration/import", import_document, name="import"),
    path("rules/", rules, name="rules"),
    path("formats/<slug:name>/", format_page, name="format"),
    path("changes/", changes, name="changes"),
    path("proxy/upstream/<int:pk>/test/", test_upstream, name="test"),
    path("proxy/upstream/<int:pk>/models/", upstream_models, name="models"),
    path("proxy/upstream/<int:pk>/claude/", claude_names, name="claude_names"),
    path("proxy/clientkey/<int:pk>/rotate/", rotate_key, name="rotate_key"),
    path("proxy/clientkey/<int:pk>/revoke/", revoke_key, name="revoke_key"),
]

handler400 = "proxy.pages.error_pages.bad_request"
handler404 = "proxy.pages.error_pages.not_found"
handler500 = "proxy.pages.error_pages.server_error"

urlpatterns = [
    path("v1/messages", converse),
    path("v1/messages/count_tokens", count_tokens),
    path("v1/chat/completions", converse),
    path("v1/models", models),
    path("v1/models/<path:name>", model),
    # For clients whose base URL already ends in /v1.
    path("v1/v1/messages", converse),
    path("v1/v1/messages/count_tokens", count_tokens),
    path("v1/v1/models", models),
    path("v1/v1/models/<path:name>", model),
    # For clients whose base URL lacks /v1.
    path("chat/completions", converse),
    path("models", models),
    path("models/<path:name>", model),
    path("v1/<path:path>", not_found),
    path("demo/v1/chat/completions", demo.chat_completions),
    path("demo/v1/models", demo.models),
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/hello", hello),
    path("api/", include(("proxy.api.urls", "api"))),
    path("", home),
    path("admin/", include((_pages, "audit"))),
    path("admin/", include((_configuration, "configuration"))),
    path("admin/", admin.site.urls),
]
