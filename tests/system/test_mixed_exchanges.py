"""Hundreds of random exchanges with a faulty upstream; `make soak` runs ten thousand."""

import os

import pytest

from tests.support.gateway import Gateway
from tests.support.mixed_exchanges import run_exchanges


@pytest.mark.parametrize("transport", ["athena", "httpx"])
def test_every_client_gets_its_own_answer_or_an_error(tmp_path, transport):
    """W1, W2, W7, W9."""
    gateway = Gateway(
        tmp_path,
        ATHENA_TRANSPORT=transport,
        DJANGO_SETTINGS_MODULE="tests.support.mixed_exchanges_settings",
    ).start()
    seed = int(os.environ.get("EXCHANGES_SEED", "7"))
    try:
        report = run_exchanges(gateway, count=400, seed=seed)
    finally:
        gateway.stop()
    print(report)
    assert not report.failures
    assert report.late > 0
    assert (report.reused > 0) == (transport == "athena")
