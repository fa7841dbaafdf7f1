"""Every regular expression runs in linear time, also on hostile text."""

import importlib
import pkgutil
import re
import time

import pytest

import formats
import proxy
from formats import UpstreamError
from formats.upstream_errors import as_context_overflow
from tests.support.linear_time import is_linear

UNITS = [
    *["a", "A", "0", " ", "\n", "\r", "\t", '"', "'", "\\", ".", ":", "-", "_", "/", "[", "{", "<"],
    *["`", ", ", "=", '\\"', "\\u", "\\ud800", "a.", "a:", "a ", "0.", "0,000", "-a", "--"],
    *["functions.f:0", "functions", "call_", "signature", "thinking", "exceed", "exceed ", "max"],
    *["context length ", "maximum ", "limit", "prompt is too long: 1", "data: ", '"choices"'],
    *['"choices": [', "<|tool", "<｜", "```", "```json ", "k2", " - at `$.", "eyJ-", "0x", "A b "],
]
# Patterns that are searched for; the others match at one offset, or a whole text.
SEARCHED = {
    "formats.upstream_errors._COUNTED",
    "formats.upstream_errors._MAXIMUM",
    "formats.upstream_errors._NUMBERS",
    "formats.upstream_errors._OVERFLOW",
    "formats.native.template._WRITTEN_ATTRIBUTE",
    "formats.native.header_rules._PUNCTUATION",
    "proxy.security.redaction._PATTERNS",
}
ALL_PATTERNS: dict[str, "re.Pattern[str] | re.Pattern[bytes]"] = {}
for package in (formats, proxy):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if ".migrations" not in module.name:
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern):
                    ALL_PATTERNS.setdefault(f"{module.name}.{name}", value)


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_every_pattern_runs_in_linear_time(name):
    pattern = ALL_PATTERNS[name]
    for unit in UNITS:

        def search(size, unit=unit):
            text = unit * (size // len(unit)) + "\x01"
            data = text.encode() if isinstance(pattern.pattern, bytes) else text
            pattern.fullmatch(data)
            if name in SEARCHED:
                for _ in pattern.finditer(data):
                    pass

        started_at = time.process_time()
        search(4000)
        if time.process_time() - started_at > 0.004:  # most take almost no time
            assert is_linear(search, 4000), unit


@pytest.mark.parametrize("unit", ["exceed", "exceed ", "max", "<=", "context length a ", "limit"])
def test_only_the_start_of_a_long_upstream_message_is_searched(unit):
    def search(size):
        as_context_overflow(UpstreamError("prompt is too long " + unit * (size // len(unit))))

    started_at = time.process_time()
    search(5_000_000)
    assert time.process_time() - started_at < 1
