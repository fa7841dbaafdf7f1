"""Clients that keep a gateway busy while a test disturbs it."""

import time
from collections import Counter
from functools import partial

import httpx

from tests.support.chat import ask, read
from tests.support.concurrent_clients import Crowd


class Load(Crowd):
    """Sends requests until stopped, and counts the answers by their text."""

    def __init__(self, gateways, model, clients=3):
        """Start `clients` clients for each gateway."""
        super().__init__(partial(self._ask, one) for one in gateways for _ in range(clients))
        self.seen = Counter()
        self.ids = []
        self.durations = []
        self._model = model

    def _ask(self, gateway, stopping):
        with gateway.client() as client:
            while not stopping.wait(0.01):
                began = time.monotonic()
                try:
                    response = client.post("/v1/messages", json=ask(self._model, stream=True))
                    self.ids.append(response.headers["request-id"])
                    text = read(response).text if response.status_code == 200 else response.text
                except (httpx.HTTPError, AssertionError) as error:
                    text = repr(error)
                self.seen[text] += 1
                self.durations.append(time.monotonic() - began)
