"""Clients that send requests concurrently until they are stopped, each in its own thread."""

import threading
from collections.abc import Callable, Iterable
from typing import Self


class Crowd:
    """Runs each function in a thread within a `with` block; it ends when its event is set."""

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
