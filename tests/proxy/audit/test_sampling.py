"""The number of transcripts kept per hour and kind of failure is limited."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from proxy.audit.capture import Capture
from proxy.audit.exchange import Exchange
from proxy.audit.failure_groups import leak_fingerprint
from proxy.audit.sampling import TranscriptSampling


def test_transcripts_per_hour_and_kind_of_failure_are_limited():
    sampling = SimpleNamespace(failures_per_hour=2, sample_others=0)
    exchange = Exchange("anthropic")
    exchange.capture = Capture(b"", 1000)
    exchange.request.snapshot = SimpleNamespace(sampling=sampling)
    exchange.request.created_at = datetime(2026, 1, 1, 10, tzinfo=UTC)
    exchange.answer.route = SimpleNamespace(sample_calls=0)
    exchange.answer.tool_calls = 1
    row = {"leaked_format": "kimi", "upstream_model": "acme/harbor-1"}
    sampler = TranscriptSampling()
    assert leak_fingerprint(row | {"leaked_format": ""}) is None
    assert [sampler.keeps(exchange, leak_fingerprint(row)) for _ in range(3)] == [True, True, False]
    assert sampler.keeps(exchange, leak_fingerprint(row | {"leaked_format": "qwen"}))
    exchange.request.created_at += timedelta(hours=1)
    assert sampler.keeps(exchange, leak_fingerprint(row))
    assert not sampler.keeps(exchange, None)
