"""What is done to a client key beyond its form: shown once when it is made, rotated, revoked."""

from datetime import timedelta
from fnmatch import fnmatchcase

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from proxy.configuration.routing import listed_models
from proxy.configuration.snapshot import load
from proxy.database.clock import clock
from proxy.models import ClientKey
from proxy.pages.access import page, shown

_EXAMPLE_MODEL = "claude-sonnet-4-5"
OVERLAPS = {
    "0": ("no longer: it ends at once", timedelta()),
    "1h": ("for an hour", timedelta(hours=1)),
    "24h": ("for a day", timedelta(days=1)),
    "7d": ("for a week", timedelta(days=7)),
}
_USUAL = "24h"


def show_key(request: HttpRequest, key: ClientKey, plain: str) -> HttpResponse:
    """The key, once, with what clients need: it is rendered here and kept nowhere."""
    url = request.build_absolute_uri("/").rstrip("/")
    return shown(
        request,
        "configuration/new_key.html",
        "A client key",
        key=key,
        plain=plain,
        url=url,
        model=_example_model(key),
        clients=clients(),
    )


def clients() -> list[tuple[str, str, str]]:
    """Of each client: the id, the name, and the template that has its lines."""
    return [
        (name, label, f"configuration/clients/{name}.txt")
        for name, label in (
            ("claude-code", "Claude Code"),
            ("cursor", "Cursor"),
            ("curl", "curl"),
            ("anthropic", "Anthropic's SDK, in Python"),
            ("openai", "OpenAI's SDK, in Python"),
        )
    ]


@page("change_clientkey", "add_clientkey", methods=("GET", "POST"))
def rotate_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a key to take the place of this one, which goes on for a while."""
    key = get_object_or_404(ClientKey, pk=pk)
    if request.method == "POST":
        _, overlap = OVERLAPS.get(request.POST.get("overlap", ""), OVERLAPS[_USUAL])
        try:
            made, plain = key.rotate(overlap, clock.now())
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return redirect("admin:proxy_clientkey_change", key.pk)
        return show_key(request, made, plain)
    overlaps = [(name, label, name == _USUAL) for name, (label, _) in OVERLAPS.items()]
    return shown(
        request, "configuration/rotate.html", f"Rotate {key.label}", key=key, overlaps=overlaps
    )


@page("change_clientkey", methods=("GET", "POST"))
def revoke_key(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(ClientKey, pk=pk)
    if request.method != "POST":
        return shown(request, "configuration/revoke.html", f"Revoke {key.label}", key=key)
    key.revoke(clock.now())
    messages.success(request, f"“{key}” is revoked: every process refuses it within two seconds.")
    return redirect("admin:proxy_clientkey_change", key.pk)


def _example_model(key: ClientKey) -> str:
    """A name that the key may use, for the lines to copy."""
    names = [_EXAMPLE_MODEL, *listed_models(load()), *key.allowed_models]
    patterns = [pattern.lower() for pattern in key.allowed_models] or ["*"]
    allowed = (n for n in names if any(fnmatchcase(n.lower(), p) for p in patterns))
    return str(next(allowed, _EXAMPLE_MODEL))
