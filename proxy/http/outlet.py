"""Where an answer is written: the connection's transport, but for its first writes and its close.

The first writes wait until the loop's next turn, so that one call of the system's takes them
together: most short answers are one. What comes later is written at once.
"""

from asyncio import AbstractEventLoop, Transport
from collections.abc import Callable

_HELD_BYTES = 64 * 1024
"""As much as the loop takes before it says that it is enough."""


class Outlet:
    def __init__(
        self, transport: Transport, leave: Callable[[], None], loop: AbstractEventLoop
    ) -> None:
        """`leave` closes the connection."""
        self._transport = transport
        self._leave = leave
        self._loop = loop
        self._held: list[bytes] = []
        self.write: Callable[[bytes], None] = self._hold
        self.is_closing = transport.is_closing

    def flush(self) -> None:
        """Write what is held, and hold no more."""
        held, self._held = self._held, []
        self.write = self._transport.write
        if held and not self.is_closing():
            self.write(b"".join(held))

    def close(self) -> None:
        self.flush()
        self._leave()

    def _hold(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        if sum(map(len, self._held)) > _HELD_BYTES:
            self.flush()
