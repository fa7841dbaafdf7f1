"""Patterns of model names."""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.configuration import patterns
from proxy.configuration.patterns import matches
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import load
from proxy.models import FormatOverride, ModelRoute, Upstream
from tests.support.stored_exchanges import configure

COUNT = 10_000


@given(st.text("ab*?[]-", max_size=8), st.text("ab\n-", max_size=8))
def test_a_name_matches_as_fnmatch_says(pattern, name):
    assert matches(name, pattern) == fnmatchcase(name, pattern)


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["model-{}", "vendor/{}-*", "*/{}?", "*-[ab]-{}"])
def test_many_routes_are_prepared_when_they_are_loaded(settings, tmp_path, monkeypatch, form):
    """N14: a name is resolved without compiling a pattern."""
    settings.DATA_DIR = tmp_path
    configure()
    upstream = Upstream.objects.get()
    ModelRoute.objects.bulk_create(
        ModelRoute(pattern=form.format(number), upstream=upstream, priority=1)
        for number in range(COUNT)
    )
    FormatOverride.objects.bulk_create(
        FormatOverride(pattern=form.format(number), format="kimi") for number in range(1000)
    )
    snapshot = load()
    assert len(snapshot.routes) > COUNT
    patterns_before = patterns.matcher.cache_info().misses

    def fail(*arguments, **options):
        raise AssertionError("a pattern was compiled")

    monkeypatch.setattr(re, "compile", fail)
    assert resolve(snapshot, "nothing like them").upstream.name == "demo"
    assert resolve(snapshot, "claude-sonnet-4-5").pattern == "claude-*sonnet*"
    assert patterns.matcher.cache_info().misses == patterns_before
