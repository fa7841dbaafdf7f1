"""Everything that waits or remembers: routing, upstreams, relaying, audit."""

from django.apps import AppConfig


class ProxyConfig(AppConfig):
    name = "proxy"
