r"""Renders a stored request as a curl command, without its key.

The command means the same in sh, bash, dash, zsh and fish. Every value is in single quotes. In fish
alone, `\'` and `\\` have a meaning there, so no value has a single quote or two backslashes in a
row: the body spells them as JSON escapes, and headers with either are left out. The command is one
line for the shell, without a here-document, which fish does not have.
"""

import json
import re
from dataclasses import dataclass

from proxy.audit.transcripts.codec import TranscriptContent
from proxy.models import Exchange

_PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
_MAX_CHARS = 100_000  # Linux accepts arguments of up to 128 KB
_PLAIN_NAME = re.compile(r"[A-Za-z0-9-]+")
_PLAIN = re.compile(r"[\x20-\x26\x28-\x5b\x5d-\x7e]*")
"""Printable ASCII without single quotes and backslashes."""
_ESCAPED = re.compile(r"\\\\|'|\x7f")


@dataclass(frozen=True, slots=True)
class CurlCommand:
    text: str
    left_out: tuple[str, ...]
    """Headers that cannot be written in a way that all shells read alike."""


def curl_command(
    exchange: Exchange, content: TranscriptContent, base_url: str
) -> CurlCommand | None:
    """Return the command; None if the stored request is incomplete or too long for one."""
    if "request" in content.left_out:
        return None
    try:
        body = json.dumps(json.loads(content.request))
    except (ValueError, RecursionError):
        return None
    body = _ESCAPED.sub(lambda match: f"\\u{ord(match[0][0]):04x}", body)
    url = f"{base_url.rstrip('/')}{_PATHS.get(exchange.dialect, '/v1/messages')}"
    if len(body) > _MAX_CHARS or not _PLAIN.fullmatch(url):
        return None
    headers = {"content-type": "application/json", **content.headers}
    plain = {
        name: value
        for name, value in sorted(headers.items())
        if _PLAIN_NAME.fullmatch(name) and _PLAIN.fullmatch(value)
    }
    parts = [
        f"curl -N '{url}'",
        '-H "x-api-key: $ATHENA_CLIENT_KEY"',
        *(f"-H '{name}: {value}'" for name, value in plain.items()),
        f"--data-binary '{body}'",
    ]
    return CurlCommand(" \\\n  ".join(parts), tuple(sorted(headers.keys() - plain.keys())))
