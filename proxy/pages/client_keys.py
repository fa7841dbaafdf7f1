"""Client key pages: show a new key once, rotate a key, revoke a key."""

import re
from datetime import timedelta
from fnmatch import fnmatchcase

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from proxy.configuration import client_keys
from proxy.configuration.claude_code import PERMISSION_MODE, session_variables
from proxy.configuration.routing import listed_models, resolve
from proxy.configuration.snapshot import Snapshot, load
from proxy.database.clock import clock
from proxy.errors import GatewayError
from proxy.models import ClientKey
from proxy.pages.access import render_page, staff_page
from proxy.security.visible_text import visible

_EXAMPLE_MODEL = "claude-sonnet-4-5"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._:/@+*?\[\]-]+")
"""A name that means itself in the quotes of every shell and of Python."""
OVERLAPS = {
    "0": ("revoke it immediately", timedelta()),
    "1h": ("for one more hour", timedelta(hours=1)),
    "24h": ("for one more day", timedelta(days=1)),
    "7d": ("for one more week", timedelta(days=7)),
}
_DEFAULT_OVERLAP = "24h"


def show_key(request: HttpRequest, key: ClientKey, plain: str) -> HttpResponse:
    """Show a new key with setup lines for each client. The plain key is stored nowhere."""
    url = request.build_absolute_uri("/").rstrip("/")
    snapshot = load()
    model = _example_model(snapshot, key)
    return render_page(
        request,
        "configuration/new_key.html",
        "New client key",
        key=key,
        plain=plain,
        url=url,
        model=model,
        variables=session_variables(model, _context_window(snapshot, model)),
        permission_mode=" ".join(PERMISSION_MODE),
        clients=clients(),
    )


def clients() -> list[tuple[str, str, str]]:
    """List the clients with setup lines: id, name and template."""
    return [
        (name, label, f"configuration/clients/{name}.txt")
        for name, label in (
            ("claude-code", "Claude Code"),
            ("cursor", "Cursor"),
            ("curl", "curl"),
            ("anthropic", "Anthropic SDK (Python)"),
            ("openai", "OpenAI SDK (Python)"),
        )
    ]


@staff_page("change_clientkey", "add_clientkey", methods=("GET", "POST"))
def rotate_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Create a replacement key; the old one stays valid for the chosen overlap."""
    key = get_object_or_404(ClientKey, pk=pk)
    if request.method == "POST":
        _, overlap = OVERLAPS.get(request.POST.get("overlap", ""), OVERLAPS[_DEFAULT_OVERLAP])
        try:
            replacement, plain = client_keys.rotate(key, overlap, clock.now())
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return redirect("admin:proxy_clientkey_change", key.pk)
        return show_key(request, replacement, plain)
    overlaps = [(name, label, name == _DEFAULT_OVERLAP) for name, (label, _) in OVERLAPS.items()]
    return render_page(
        request, "configuration/rotate.html", f"Rotate {key.label}", key=key, overlaps=overlaps
    )


@staff_page("change_clientkey", methods=("GET", "POST"))
def revoke_key(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(ClientKey, pk=pk)
    if request.method != "POST":
        return render_page(request, "configuration/revoke.html", f"Revoke {key.label}", key=key)
    client_keys.revoke(key, clock.now())
    messages.success(
        request, f"“{visible(str(key))}” is revoked. All processes reject it within two seconds."
    )
    return redirect("admin:proxy_clientkey_change", key.pk)


def _context_window(snapshot: Snapshot, model: str) -> int | None:
    try:
        return resolve(snapshot, model).context_window
    except GatewayError:
        return None


def _example_model(snapshot: Snapshot, key: ClientKey) -> str:
    """Pick a model name that the key may use, for the setup lines, which people paste into shells.

    An operator may list any text as a model's name.
    """
    names = [_EXAMPLE_MODEL, *listed_models(snapshot), *key.allowed_models]
    patterns = [pattern.lower() for pattern in key.allowed_models] or ["*"]
    plain = filter(_PLAIN_NAME.fullmatch, names)
    allowed = (n for n in plain if any(fnmatchcase(n.lower(), p) for p in patterns))
    return str(next(allowed, _EXAMPLE_MODEL))
