"""Every URL on one screen. Those of `proxy.views` are served by the slim handler."""

from django.contrib import admin
from django.urls import path

from proxy import demo
from proxy.views import (
    count_tokens,
    healthz,
    hello,
    home,
    messages,
    model,
    models,
    not_found,
    only,
    readyz,
)

urlpatterns = [
    path("v1/messages", only("POST", messages)),
    path("v1/messages/count_tokens", only("POST", count_tokens)),
    path("v1/models", only("GET", models)),
    path("v1/models/<path:name>", only("GET", model)),
    # Clients whose base URL already ends in /v1.
    path("v1/v1/messages", only("POST", messages)),
    path("v1/v1/messages/count_tokens", only("POST", count_tokens)),
    path("v1/v1/models", only("GET", models)),
    path("v1/v1/models/<path:name>", only("GET", model)),
    path("v1/<path:path>", not_found),
    path("demo/v1/chat/completions", only("POST", demo.chat_completions)),
    path("demo/v1/models", only("GET", demo.models)),
    path("healthz", only("GET", healthz)),
    path("readyz", only("GET", readyz)),
    path("api/hello", only("GET", hello)),
    path("", only("GET", home)),
    path("admin/", admin.site.urls),
]
