"""Decides which exchanges keep their transcript.

Failures and leaks of markup keep theirs, up to a number per hour for each kind. Other exchanges are
sampled at random: at the route's rate for answers with tool calls, at the gateway's for the rest.
"""

import random
from collections import Counter

from proxy.audit.exchange import Exchange


class TranscriptSampling:
    def __init__(self) -> None:
        self._kept: Counter[str] = Counter()  # transcripts per kind of failure, in this hour
        self._hour = 0

    def keeps(self, exchange: Exchange, failure_kind: str | None) -> bool:
        """`failure_kind`: the fingerprint of a failure or a leak; None if all went well."""
        snapshot, route = exchange.request.snapshot, exchange.answer.route
        if exchange.capture is None or snapshot is None:
            return False
        if failure_kind is not None:
            return self._keeps_failure(exchange, failure_kind, snapshot.sampling.failures_per_hour)
        share = snapshot.sampling.sample_others
        if exchange.answer.tool_calls and route is not None:
            share = route.sample_calls
        return random.random() < share  # noqa: S311  not for security

    def _keeps_failure(self, exchange: Exchange, kind: str, failures_per_hour: int) -> bool:
        hour = int(exchange.request.created_at.timestamp()) // 3600
        if hour > self._hour:  # an exchange of the last hour may end after one of this hour
            self._hour = hour
            self._kept.clear()
        self._kept[kind] += 1
        return self._kept[kind] <= failures_per_hour
