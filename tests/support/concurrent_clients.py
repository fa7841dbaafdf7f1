"""Clients that ask all at once and without end, each in a thread of its own."""

import threading
from collections.abc import Callable, Iterable
from typing import Self


class Crowd:
    """Within a `with` block, each piece of work is done until the event is set that it gets."""

    def __init__(self, works: Iterable[Callable[[threading.Event], None]]) -> None:
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=work, args=(self._stopping,)) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
