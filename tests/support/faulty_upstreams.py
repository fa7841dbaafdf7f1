"""A gateway with routes to upstreams that fail, each in its own way.

The prefix of a model's name selects the upstream. Timeouts are short, so that tests can reach them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from tests.support.certificates import BAD, Authority
from tests.support.chat import ask
from tests.support.client_views import View, view
from tests.support.gateway import Gateway
from tests.support.scripted_upstream import (
    Script,
    ScriptedUpstream,
    Step,
    blackhole,
    plaintext,
    refused,
)

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
# The timeouts that are short, by the prefix of a model's name.
TIMES = {
    "first": "connect_timeout=1.0 first_byte_timeout=1.0",
    "later": "first_byte_timeout=2.5",
    "idle": "idle_timeout=1.0",
    "progress": "progress_timeout=1.5",
    "total": "total_timeout=2.0",
}
_numbers = count()


@dataclass(frozen=True)
class Faulty:
    gateway: Gateway
    client: httpx.Client
    upstream: ScriptedUpstream
    ports: dict[str, int]
    """Ports of upstreams that do not answer."""
    trusted: ScriptedUpstream
    """An upstream with a valid certificate."""

    def script(self, kind: str, *answers: list[Step]) -> tuple[str, Script]:
        """Return a new model of an upstream of this kind, and its script."""
        model = f"{kind if '/' in kind else named(kind)}-{next(_numbers)}"
        return model, self.upstream.script(model, *answers)

    def post(self, model: str, dialect: str = "anthropic", **fields: Any) -> httpx.Response:
        return self.client.post(PATHS[dialect], json=ask(model, **fields))

    def row(self, response: httpx.Response) -> tuple[str, str, str, int]:
        """Return outcome, phase, code and status of the audit row."""
        row = self.gateway.exchange(response)
        return row["outcome"], row["error_phase"], row["error_code"], row["status"]


def named(kind: str) -> str:
    """Return the prefix of the names of an upstream's models."""
    return f"faulty-{kind}"


def failed_in_the_middle(response: httpx.Response, dialect: str) -> View:
    """Check that a stream ends in an error with nothing after it, and return what a client reads."""
    assert response.status_code == 200, response.text
    seen = view(response.content, dialect)
    assert seen.error
    assert seen.stop is None
    assert b"[DONE]" not in response.content
    assert f" (request {response.headers['request-id']})" in response.text  # N2
    assert f'"request_id":"{response.headers["request-id"]}"' in response.text
    if dialect == "anthropic":
        assert seen.names[-2:] == ["error", "message_stop"]
    return seen


@contextmanager
def faulty(gateway: Gateway, upstream: ScriptedUpstream, authority: Authority) -> Iterator[Faulty]:
    with ExitStack() as stack:
        ports = {
            "refused": stack.enter_context(refused()),
            "blackhole": stack.enter_context(blackhole()),
            "plaintext": stack.enter_context(plaintext()),
        }
        bases = {name: f"http://127.0.0.1:{port}/v1" for name, port in ports.items()}
        bases["nameless"] = "http://no-such-host.invalid/v1"
        bases["plaintext"] = bases["plaintext"].replace("http:", "https:")
        servers = {kind: ScriptedUpstream(authority.context(kind)) for kind in ("good", *BAD)}
        bases |= {kind: server.url for kind, server in servers.items()}
        rows = [(name, "openai", base, "connect_timeout=1.0") for name, base in bases.items()]
        rows += [(name, "openai", upstream.url, short) for name, short in TIMES.items()]
        rows += [("pings", "anthropic", upstream.url, TIMES["progress"])]
        rows += [("claude-up", "anthropic", upstream.url, "idle_timeout=60.0")]
        gateway.edit(
            f"for name, dialect, base, short in {rows!r}:\n"
            "    times = dict(item.split('=') for item in short.split())\n"
            "    u = Upstream.objects.create(name='faulty-' + name, dialect=dialect, base_url=base,"
            " **{field: float(value) for field, value in times.items()})\n"
            "    ModelRoute.objects.create(pattern=u.name + '-*', upstream=u, priority=1)"
        )
        client = stack.enter_context(gateway.client())
        yield Faulty(gateway, client, upstream, ports, servers["good"])
