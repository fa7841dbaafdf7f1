"""Retries and fallbacks: attempts until an upstream has started to answer.

Nothing has been sent to the client before that, so a failed attempt can be followed by another: the
same again, the same without thinking blocks whose signature was rejected, or one at the fallback
route. The exchange records each failed attempt.

A request is sent to one model of one upstream at most twice, whatever happens: attempts cost money,
and may have effects. A fallback to another model or upstream is another request, with two attempts
of its own. Not counted is a request that was written to an idle connection which the upstream had
closed (`proxy.upstreams.pool`); only a first attempt uses idle connections, so this happens once.
"""

import asyncio
from collections import Counter
from dataclasses import replace

import msgspec

from formats import Conversation, ReplyOptions, Target
from proxy.audit.exchange import Exchange
from proxy.configuration.routing import bare_name, fallback, resolve
from proxy.configuration.snapshot import Snapshot
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, UpstreamFailed
from proxy.serving.attempt import StartedAnswer, attempt
from proxy.upstreams.client import Forwarded, UpstreamClient

_RETRY_SECONDS = 0.2
_MAX_ATTEMPTS = 2
"""For one model of one upstream."""


async def start_answer(
    client: UpstreamClient,
    snapshot: Snapshot,
    conversation: Conversation,
    exchange: Exchange,
    *,
    options: ReplyOptions,
    forwarded: Forwarded,
) -> StartedAnswer:
    """Return the first answer that starts; raises GatewayError if none does."""
    requested = bare_name(exchange.request.model)
    route = resolve(snapshot, requested)
    attempts: Counter[tuple[str, str]] = Counter()
    followed = set[int | None]()
    while True:
        target = (route.upstream.name, route.model)
        attempts[target] += 1
        try:
            answer = await attempt(
                client,
                route,
                conversation,
                exchange,
                options=options,
                forwarded=forwarded,
                is_repeated=attempts[target] > 1,
            )
            if not answer.is_empty or route.fallback_id in (None, *followed):
                return answer
            answer.body.abort()
            raise _empty(route.upstream)
        except UpstreamFailed as failure:
            exchange.failed_attempts.append((route, failure))
            if attempts[target] < _MAX_ATTEMPTS:
                if failure.rejects_thinking and route.target.takes_thinking:
                    route = replace(route, target=_without_thinking(route.target))
                    continue
                if failure.retry_same_upstream:
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
            other = fallback(snapshot, route, requested) if failure.allows_fallback else None
            if other is None or route.fallback_id in followed:  # edits can create a cycle
                raise
            if attempts[other.upstream.name, other.model] >= _MAX_ATTEMPTS:
                raise
            followed.add(route.fallback_id)
            route = other


def _without_thinking(target: Target) -> Target:
    return msgspec.structs.replace(target, takes_thinking=False)


def _empty(upstream: Upstream) -> UpstreamFailed:
    message = f"the upstream {upstream.name} finished with an empty answer"
    return UpstreamFailed(ErrorCode.UPSTREAM_EMPTY, message)
