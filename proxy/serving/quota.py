"""Slots for concurrent requests, per node and per key, and each key's requests per minute.

Slots are counted in memory; each process gets an equal share of its node's slots. A request holds
its slot from before its body is read until it ends. Limits come from the request's snapshot: an
edit applies to the next request, and open requests stay counted. Rejected requests are not counted.
"""

from math import ceil

from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Key
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.rate import LocalRate, Rate


class Quota:
    def __init__(self, processes: int = 1) -> None:
        """`processes` share the node's slots."""
        self._processes = processes
        self.rate: Rate = LocalRate()
        self.used_slots = 0
        self._by_key: dict[int, set[Exchange]] = {}

    async def acquire(self, exchange: Exchange, key: Key, max_streams: int) -> None:
        """Take a slot and count the request; raises GatewayError if either limit is reached.

        `max_streams` is the number of slots of the node.
        """
        # The slot first: counting may wait for Redis, and others would take the slot meanwhile.
        self.acquire_slot(exchange, key, max_streams)
        try:
            await self.count_request(key)
        except GatewayError:
            self.release(exchange)
            raise

    def acquire_slot(self, exchange: Exchange, key: Key, max_streams: int) -> None:
        """Take a slot until `release`; raises GatewayError if none is free."""
        if self.used_slots >= ceil(max_streams / self._processes):
            raise GatewayError(
                ErrorCode.AT_CAPACITY,
                "the gateway is serving its maximum number of requests: try again",
            )
        used = self._by_key.get(key.id, ())
        if key.max_streams is not None and len(used) >= key.max_streams:
            raise GatewayError(
                ErrorCode.KEY_BUSY,
                f"this key has {len(used)} open requests and is limited to {key.max_streams}: "
                "try again when one has ended",
            )
        self._by_key.setdefault(key.id, set()).add(exchange)
        self.used_slots += 1

    async def count_request(self, key: Key) -> None:
        """Count a request against the key's rate; raises GatewayError if the limit is reached."""
        if (limit := key.requests_per_minute) is not None:
            wait = await self.rate.count_request(key.id, limit)
            if wait is not None:
                raise GatewayError(
                    ErrorCode.KEY_RATE_LIMIT,
                    f"this key has reached its limit of {limit} requests per minute",
                    retry_after=ceil(wait),
                )

    def release(self, exchange: Exchange) -> None:
        """Free the slot of a request, if it holds one."""
        key_id = exchange.request.key.id if exchange.request.key else 0
        used = self._by_key.get(key_id)
        if used is not None and exchange in used:
            used.remove(exchange)
            self.used_slots -= 1
            if not used:
                del self._by_key[key_id]
