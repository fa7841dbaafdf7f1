"""What may be answered at once, by this node and for one key; and what a key may ask in a minute.

Places are counted in memory, by each process for itself; a node's are shared out among its
processes. A request has its place from before its body is read. Limits come with the configuration
of a request, so that an edit is live with the next version, and what is open or was asked stays
counted. A request that is refused counts for nothing.
"""

from math import ceil

from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Key
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.rate import OwnRate, Rate


class Quota:
    def __init__(self, processes: int = 1) -> None:
        """`processes`: how many share the node's places."""
        self._processes = processes
        self.rate: Rate = OwnRate()
        self.open = 0
        """How many requests hold a place."""
        self._open: dict[int, set[Exchange]] = {}

    async def admit(self, exchange: Exchange, key: Key, most: int) -> None:
        """Give the request a place until `release`; raises GatewayError if there is none.

        `most`: how many requests the node may be answering.
        """
        # Before the rate, which may have to be waited for: others would take the place meanwhile.
        self.hold(exchange, key, most)
        try:
            await self.hit(key)
        except GatewayError:
            self.release(exchange)
            raise

    def hold(self, exchange: Exchange, key: Key, most: int) -> None:
        """A place alone, whatever the key's rate."""
        if self.open >= ceil(most / self._processes):
            raise GatewayError(
                ErrorCode.AT_CAPACITY,
                "the gateway is serving its maximum number of requests: try again",
            )
        held = self._open.get(key.id, ())
        if key.max_streams is not None and len(held) >= key.max_streams:
            raise GatewayError(
                ErrorCode.KEY_BUSY,
                f"this key may have {key.max_streams} open at once, and has {len(held)}",
            )
        self._open.setdefault(key.id, set()).add(exchange)
        self.open += 1

    async def hit(self, key: Key) -> None:
        """Count a request of the key's; raises GatewayError if it is one too many."""
        if (limit := key.requests_per_minute) is not None:
            wait = await self.rate.hit(key.id, limit)
            if wait is not None:
                raise GatewayError(
                    ErrorCode.KEY_RATE_LIMIT,
                    f"this key has made as many requests in a minute as it may: {limit}",
                    retry_after=ceil(wait),
                )

    def release(self, exchange: Exchange) -> None:
        """Give back the place of a request, if it has one."""
        key_id = exchange.request.key.id if exchange.request.key else 0
        held = self._open.get(key_id)
        if held is not None and exchange in held:
            held.remove(exchange)
            self.open -= 1
            if not held:
                del self._open[key_id]
