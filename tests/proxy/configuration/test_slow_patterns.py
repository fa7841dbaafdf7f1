"""Hostile patterns and documents take little time."""

import time
from fnmatch import fnmatchcase

import pytest
from django.core.exceptions import ValidationError

from proxy.configuration.document.import_document import preview_import
from proxy.configuration.document.problems import InvalidDocument
from proxy.validators import validate_pattern
from tests.support.stored_exchanges import NOW

BOMB = "athena: 1\nroutes:\n" + "".join(
    f"  - &a{n} [{', '.join(f'*a{n - 1}' for _ in range(10)) if n else 'lol'}]\n" for n in range(10)
)


@pytest.mark.parametrize("pattern", ["*a" * 100, "*" * 200, "?*" * 100, "[a-z]*" * 33])
def test_every_pattern_matches_in_linear_time(pattern):
    """Threat O1: an equivalent regular expression would take exponential time."""
    validate_pattern(pattern)
    began = time.process_time()
    fnmatchcase("a" * 5000 + "!", pattern + "b")
    assert time.process_time() - began < 1


def test_regular_expressions_are_not_valid_patterns():
    with pytest.raises(ValidationError):
        validate_pattern("(a+)+$")


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "athena: 1\nroutes: " + "[" * 5000,
        "athena: 1\nroutes: [" + "{}," * 60_000 + "]",
        "athena: 1\n#" + "x" * 1_100_000,
        "athena: 1\nroutes: !!python/object/apply:os.system ['true']",
        "athena: 1\nathena: 1",
        "athena: 1\nunknown: []",
    ],
    ids=["laughs", "depth", "nodes", "size", "object", "twice", "unknown"],
)
def test_a_hostile_document_is_rejected_quickly(configured, text):
    """Threat O10."""
    began = time.process_time()
    with pytest.raises(InvalidDocument):
        preview_import(text, now=NOW)
    assert time.process_time() - began < 5
