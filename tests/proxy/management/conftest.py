"""Fixtures of the command tests."""

from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway


@pytest.fixture(scope="package")
def demo_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A running gateway without an API key, so that the demo model answers."""
    gateway = Gateway(tmp_path_factory.mktemp("demo")).start()
    yield gateway
    gateway.stop()
