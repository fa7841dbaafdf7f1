"""Renders a stored request as a curl command, without its key."""

import json
import shlex

from proxy.audit.transcripts.codec import TranscriptContent
from proxy.models import Exchange

_PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
_MAX_CHARS = 100_000  # Linux accepts arguments of up to 128 KB


def curl_command(exchange: Exchange, content: TranscriptContent, base_url: str) -> str:
    """Return the command; empty if the stored request is incomplete or too long for one.

    The body is encoded in ASCII, so that it cannot send control characters to a terminal.
    """
    if "request" in content.left_out:
        return ""
    try:
        body = json.dumps(json.loads(content.request))
    except (ValueError, RecursionError):
        return ""
    if len(body) > _MAX_CHARS:
        return ""
    headers = {"content-type": "application/json", **content.headers}
    shown = [
        f"-H {shlex.quote(f'{name}: {value}')}"
        for name, value in sorted(headers.items())
        if value.isprintable()
    ]
    url = f"{base_url.rstrip('/')}{_PATHS.get(exchange.dialect, '/v1/messages')}"
    parts = [f"curl -N {shlex.quote(url)}", '-H "x-api-key: $ATHENA_CLIENT_KEY"', *shown]
    return " \\\n  ".join([*parts, f"--data-binary {shlex.quote(body)}"])
