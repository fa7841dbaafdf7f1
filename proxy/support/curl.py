"""A stored request as a command for the shell, without its key."""

import json
import shlex

from proxy.audit.transcripts.codec import TranscriptContent
from proxy.models import Exchange

_PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
_LONGEST = 100_000  # Linux takes no argument beyond 128 KB


def curl_of(exchange: Exchange, said: TranscriptContent, base_url: str) -> str:
    """The command; empty where the request was not kept whole, or is too long for one.

    The body is written again in ASCII: nothing in it can reach a terminal as a control character.
    """
    if "request" in said.left_out:
        return ""
    try:
        body = json.dumps(json.loads(said.request))
    except (ValueError, RecursionError):
        return ""
    if len(body) > _LONGEST:
        return ""
    headers = {"content-type": "application/json", **said.headers}
    shown = [
        f"-H {shlex.quote(f'{name}: {value}')}"
        for name, value in sorted(headers.items())
        if value.isprintable()
    ]
    url = f"{base_url.rstrip('/')}{_PATHS.get(exchange.dialect, '/v1/messages')}"
    parts = [f"curl -N {shlex.quote(url)}", '-H "x-api-key: $ATHENA_CLIENT_KEY"', *shown]
    return " \\\n  ".join([*parts, f"--data-binary {shlex.quote(body)}"])
