"""Patterns of model names."""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.configuration import patterns
from proxy.configuration.patterns import PatternIndex, matches
from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import load
from proxy.models import FormatOverride, ModelRoute, Upstream
from proxy.serving.model_list import listing
from tests.support.stored_exchanges import configure

COUNT = 10_000


@given(st.text("ab*?[]-", max_size=8), st.text("ab\n-", max_size=8))
def test_a_name_matches_as_fnmatch_says(pattern, name):
    assert matches(name, pattern) == fnmatchcase(name, pattern)


@given(
    st.lists(st.text("ab*?[]!-", max_size=8), max_size=20),
    st.text("ab[]!-", max_size=10) | st.just("ab-" * 120),
)
def test_an_index_finds_what_each_pattern_matches_in_order(patterns, name):
    expected = [at for at, pattern in enumerate(patterns) if fnmatchcase(name, pattern)]
    assert list(PatternIndex(patterns).matching(name)) == expected


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["vendor/{}-*", "*/{}?", "*-[ab]-w{}", "*{}*"])
def test_n14_a_name_is_compared_with_few_of_many_patterns(settings, tmp_path, monkeypatch, form):
    """N14: the model list compared each name with every pattern, for seconds."""
    settings.DATA_DIR = tmp_path
    configure()
    upstream = Upstream.objects.get()
    ModelRoute.objects.bulk_create(
        ModelRoute(
            pattern=form.format(number), upstream=upstream, listed_as=f"listed-{number}", priority=1
        )
        for number in range(COUNT)
    )
    FormatOverride.objects.bulk_create(
        FormatOverride(pattern=form.format(number), format="kimi") for number in range(COUNT)
    )
    compared, matcher = 0, patterns.matcher

    def counted(pattern):
        match = matcher(pattern)

        def count(name):
            nonlocal compared
            compared += 1
            return match(name)

        return count

    monkeypatch.setattr(patterns, "matcher", counted)
    snapshot = load()
    [key] = snapshot.keys.values()
    page = listing(snapshot, key, "anthropic", limit=100, after="", before="")
    assert len(page["data"]) == 100
    assert compared < 40 * 100


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
