"""Reads the metrics of a gateway as Prometheus does."""

from collections.abc import Iterator

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.gateway import NO_TLS


def scrape(url: str, **headers: str) -> list[Sample]:
    # A new connection each time, so that any worker may answer.
    response = httpx.get(f"{url}/metrics", headers=headers, trust_env=False, verify=NO_TLS)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return list(_samples(response.text))


def value(samples: list[Sample], name: str, **labels: str) -> float:
    """Return the sum of the samples with this name and these labels."""
    wanted = labels.items()
    return sum(s.value for s in samples if s.name == name and wanted <= s.labels.items())


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples
