"""Journal entries of exchanges that have ended, made without a gateway."""

import random
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from proxy.audit.failure_groups import failure_fingerprint
from proxy.audit.journal.entries import EndEntry
from proxy.models import Outcome

NOW = datetime(2026, 6, 1, 12, 34, tzinfo=UTC)
_numbers = count()


def failed_entry(number: int, **fields: Any) -> EndEntry:
    """An exchange whose upstream failed; its request id ends with the number."""
    row = {
        "request_id": f"req_{number}",
        "created_at": datetime.now(UTC),
        "dialect": "anthropic",
        "model": "m",
        "status": 500,
        "outcome": "upstream_error",
        "format": "kimi",
        "error_code": "upstream_error",
        "error_phase": "answer",
        "upstream_model": "a/b",
        "duration_ms": 1,
        "gateway_ms": 1,
        "configuration_version": 1,
    }
    row |= fields
    return EndEntry(row, failure_fingerprint(row))


def random_entry(chance: random.Random, **fields: Any) -> EndEntry:
    """An exchange of the last 100 days before NOW, with random columns."""
    row = {
        "request_id": f"req_{next(_numbers)}",
        "created_at": NOW - timedelta(seconds=chance.randrange(100 * 86400)),
        "dialect": "anthropic",
        "model": chance.choice(["a/b", "a/b c", "kimi", "", "’); DROP TABLE"]),
        "upstream": chance.choice(["openrouter", "vllm", ""]),
        "served_by": chance.choice(["Parasail", "Two Words", ""]),
        "format": chance.choice(["kimi", "standard", ""]),
        "status": 200,
        "outcome": chance.choice(Outcome.values),
        "tool_calls": chance.randrange(4),
        "rescued_calls": chance.choice([0, 0, 1, 3]),
        "leaked_format": chance.choice(["", "", "kimi"]),
        "input_tokens": chance.choice([None, 0, 2_000_000_000]),
        "output_tokens": chance.choice([None, None, 7]),
        "cache_read_tokens": None,
        "first_byte_ms": chance.choice([None, 0.0, chance.lognormvariate(6, 2)]),
        "duration_ms": 1.0,
        "gateway_ms": chance.lognormvariate(1, 1),
        "configuration_version": 1,
        **fields,
    }
    return EndEntry(row, None)
