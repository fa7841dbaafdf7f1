"""Attempts, until one has really begun to answer.

Nothing has been sent to the client so far, so that a failure may be followed by another attempt:
the same once more, the same without thinking whose signature was refused, or one at the route that
this one falls back to. The exchange remembers each that failed.
"""

import asyncio
from dataclasses import replace

import msgspec

from formats import Conversation, ReplyOptions, Target
from proxy.audit.exchange import Exchange
from proxy.configuration.routing import bare_name, fallback, resolve
from proxy.configuration.snapshot import Snapshot
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, UpstreamFailed
from proxy.serving.attempt import Begun, attempt
from proxy.upstreams.client import Carried, UpstreamClient

_PAUSE = 0.2


async def begin(
    client: UpstreamClient,
    snapshot: Snapshot,
    conversation: Conversation,
    exchange: Exchange,
    *,
    options: ReplyOptions,
    carried: Carried,
) -> Begun:
    """An answer that has begun; raises GatewayError when no upstream gives one."""
    requested = bare_name(exchange.request.model)
    route = resolve(snapshot, requested)
    may_retry, followed = True, set[int | None]()
    while True:
        try:
            begun = await attempt(
                client, route, conversation, exchange, options=options, carried=carried
            )
            if not begun.is_empty or route.fallback_id in (None, *followed):
                return begun
            begun.answer.abort()
            raise _empty(route.upstream)
        except UpstreamFailed as failure:
            exchange.failed_attempts.append((route, failure))
            if failure.refuses_thinking and route.target.takes_thinking:
                route = replace(route, target=_without_thinking(route.target))
                continue
            if failure.retry_same_upstream and may_retry:
                may_retry = False
                await asyncio.sleep(_PAUSE)
                continue
            other = fallback(snapshot, route, requested) if failure.allows_fallback else None
            if other is None or route.fallback_id in followed:  # edits may have made a circle
                raise
            followed.add(route.fallback_id)
            route, may_retry = other, True


def _without_thinking(target: Target) -> Target:
    """For an upstream that refused the signature of thinking: it gets none back."""
    return msgspec.structs.replace(target, takes_thinking=False)


def _empty(upstream: Upstream) -> UpstreamFailed:
    message = f"the upstream {upstream.name} finished with nothing in its answer"
    return UpstreamFailed(ErrorCode.UPSTREAM_EMPTY, message)
