"""Runs Hypothesis on every target with mutated seeds; failures are shrunk."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.corpus import seeds
from tests.fuzz.failing_inputs import save
from tests.fuzz.targets import TARGETS

_TOKENS = re.compile(rb"<[^<>]{1,40}>|[{}\[\]\",:\\]|\w+|\s+|[^\w\s]")
_NASTY = [
    b"\x00", b"\xff", b"\xef\xbb\xbf", "\u2028".encode(), b"\r", b"\n\n", b"\\ud800", b"1e999", b"NaN",
    b"-0", b"null", b"[]", b"{}", b'""', b"9" * 400, b"[" * 200, b'{"a":' * 150, b"\\u0000", b"data:",
    b"event: error\n", b"data: [DONE]\n\n", b'"index":-1', b'"finish_reason":"length"', b"true",
]  # fmt: skip


def inputs(target: str) -> st.SearchStrategy[bytes]:
    """Generate sequences of tokens, most of them from the target's seeds, in any order."""
    known = list(seeds(target))
    tokens = sorted({token for seed in known for token in _TOKENS.findall(seed[:5000])})
    token = st.sampled_from(tokens or [b"x"]) | st.sampled_from(_NASTY) | st.binary(max_size=4)

    @st.composite
    def spoilt(draw: st.DrawFn) -> bytes:
        parts = _TOKENS.findall(draw(st.sampled_from(known))[:5000])
        for _ in range(draw(st.integers(1, 6))):
            at = draw(st.integers(0, max(0, len(parts) - 1)))
            size = draw(st.integers(0, 8))
            match draw(st.integers(0, 3)):
                case 0:
                    del parts[at : at + size]
                case 1:
                    parts[at:at] = draw(st.lists(token, max_size=4))
                case 2:
                    parts[at:at] = parts[at : at + size]
                case _:
                    parts[at : at + 1] = [draw(token)]
        return b"".join(parts)

    return spoilt() | st.lists(token, max_size=40).map(b"".join) | st.binary(max_size=200)


def fuzz(target: str, seconds: float, folder: Path) -> tuple[int, str | None]:
    """Return the number of inputs tried, and the error of the smallest failing input."""
    end, tried = time.monotonic() + seconds, 0
    check: Callable[[bytes], None] = TARGETS[target]
    last = b""

    @given(data=inputs(target))
    @settings(
        max_examples=300,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    def run(data: bytes) -> None:
        nonlocal tried, last
        tried += 1
        last = data
        check(data)

    while time.monotonic() < end:
        try:
            run()
        except Exception as error:  # noqa: BLE001  every exception is a finding
            save(folder, target, last)
            return tried, f"{type(error).__name__}: {str(error)[:300]}"
    return tried, None
