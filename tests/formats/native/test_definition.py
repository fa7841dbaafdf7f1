"""Definitions: what is accepted, what is refused and with which words, and what a format reads."""

import copy
import json
import re
from cProfile import Profile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import (
    BUILT_IN_DEFINITIONS,
    FORMATS,
    DefinitionError,
    Identity,
    build_pipeline,
    collect,
    read_definition,
)
from formats.native.kinds import KINDS
from formats.native.template import PLACEHOLDERS
from tests.fuzz.targets import TARGETS
from tests.support.definitions import hostile_definition, text_made_of
from tests.support.linear_time import work
from tests.support.native_replies import calls_of, read_text, reasoning_of, text_of
from tests.support.operator_formats import OPERATOR_CALLS, OPERATOR_FORMATS, TAGS, TOKENS
from tests.support.wire import stream

TOKEN_MARKERS = TOKENS["grammars"][0]["markers"]


@pytest.mark.parametrize("name", BUILT_IN_DEFINITIONS)
def test_a_built_in_definition_is_accepted_and_is_what_the_format_is_made_of(name):
    definition = read_definition(BUILT_IN_DEFINITIONS[name])
    assert read_definition(json.loads(definition.text)).text == definition.text
    assert definition.sample
    reply = read_text(definition.native, definition.sample)
    assert not reply.faults
    [(tool, written)] = calls_of(reply)
    assert (tool, json.loads(written)["harbor"], text_of(reply)) == ("get_tide", "Moss", "")


def test_every_built_in_format_has_a_definition():
    assert {*FORMATS} == {"standard", "auto", *BUILT_IN_DEFINITIONS}


@pytest.mark.parametrize("name", OPERATOR_FORMATS)
def test_a_format_of_an_operator_reads_its_sample(name):
    definition = OPERATOR_FORMATS[name]
    reply = read_text(definition.native, "I look. " + definition.sample + "⟦over⟧<acme:over x>")
    assert calls_of(reply) == [("get_tide", '{"harbor": "Moss"}')]
    assert text_of(reply) == "I look. " + (
        "<acme:over x>" if name == "operator-tokens" else "⟦over⟧"
    )


def test_markers_of_reasoning_and_other_spellings_count():
    reply = read_text(
        OPERATOR_FORMATS["operator-tokens"].native,
        '⟦muse⟧Moss?⟦/muse⟧Yes.⟦tool\\_call⟧f⟦with⟧{"n": 1}⟦/call⟧',
    )
    assert (reasoning_of(reply), text_of(reply)) == ("Moss?", "Yes.")
    assert calls_of(reply) == [("f", '{"n": 1}')]
    reply = read_text(OPERATOR_FORMATS["operator-tags"].native, "<think>Moss?</think>Yes.")
    assert (reasoning_of(reply), text_of(reply)) == ("Moss?", "Yes.")


def test_attributes_may_come_in_any_order_and_quotes():
    text = (
        "<acme:calls><acme:do a=1 tool='f'><acme:with type=number key=n>\n7\n</acme:with></acme:do>"
    )
    assert calls_of(read_text(OPERATOR_FORMATS["operator-tags"].native, text)) == [
        ("f", '{"n": 7}')
    ]


def test_patterns_ignore_case():
    definition = OPERATOR_FORMATS["operator-tokens"]
    assert definition.detects("ACME/Big")
    assert definition.detects("x-Muse-1b")
    assert not definition.detects("other/acme")


@pytest.mark.parametrize("settings", [{}, {"markers": (("CALL_BEGIN", "@@call@@"),)}])
def test_a_pipeline_reads_the_text_of_a_definition(settings):
    definition = OPERATOR_FORMATS["operator-tokens"]
    text = definition.sample
    if settings:
        text = text.replace("⟦call⟧", "@@call@@")
    pipeline = build_pipeline(
        client="openai",
        upstream="openai",
        format_name="acme",
        definition=definition.text,
        identity=Identity(token="t"),
        **settings,
    )
    reply = collect([*pipeline.decode(stream({"content": text})), *pipeline.decode_end()])
    assert calls_of(reply) == [("get_tide", '{"harbor": "Moss"}')]


def changed(document, path, value):
    """Return a copy of a document with another value at a path."""
    document = copy.deepcopy(document)
    *places, last = path.split(".")
    holder = document
    for place in places:
        holder = holder[int(place) if isinstance(holder, list) else place]
    holder[int(last) if isinstance(holder, list) else last] = value
    return document


MARKERS = "grammars.0.markers"
REFUSED = [
    # document, path, value, the problem's path (as the changed one if empty), words of its message
    (TOKENS, "grammars", [], "", "List 1 to 8 grammars"),
    (TOKENS, "grammars.0", "tokens", "", 'an object with "kind"'),
    (TOKENS, "colour", "red", "", "There is no key “colour”"),
    (TOKENS, "turn_marker", [], "", "Did you mean turn_markers?"),
    (TOKENS, "grammars.0.kind", "token", "", "Did you mean tokens?"),
    (TOKENS, "grammars.0.header", "plain", "", "Choose one of name, counted_name"),
    (TOKENS, "grammars.0.special", 1, "", "Choose one of true, false"),
    (TOKENS, "grammars.0.tail", ["ab"], "grammars.0.tail.0", "one character"),
    (TOKENS, f"{MARKERS}.CALLS_BEGIN", ["<|a|>"], "", "Did you mean CALL_BEGIN?"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", [], "", "needs a marker for CALL_BEGIN"),
    (TOKENS, MARKERS, [], "", "needs CALL_BEGIN, ARGUMENTS_BEGIN"),
    (
        TOKENS,
        MARKERS,
        {"CALL_BEGIN": ["<|call|>"], "ARGUMENTS_BEGIN": ["<|with|>"]},
        "",
        "Give a marker for CALL_END or SECTION_END",
    ),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", "⟦call⟧", "", "a list of at most 8 markers"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", [1], "", "A marker is a text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<f>"], "", "too short"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["call the tool"], "", "begins like ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["7 tools"], "", "begins like ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["(call)"], "", "begins like ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", [" <call>"], "", "begins or ends with a blank"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["#call"], "", "may stand in ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["## Call:"], "", "may stand in ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["======"], "", "may stand in ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["</div>"], "", "may stand in ordinary text"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<call\x00>"], "", "control characters"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<call\u200b>"], "", "invisible"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<|" + "a" * 47], "", "at most 48 characters"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<|" + "a" * 99], "", "at most 80 characters"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<|call {nam}|>"], "", "Did you mean {name}?"),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<|call {name}|>"], "", "cannot have"),
    (
        TOKENS,
        f"{MARKERS}.CALL_BEGIN",
        ["⟦with⟧"],
        f"{MARKERS}.ARGUMENTS_BEGIN",
        "is also the marker at",
    ),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["⟦calls⟧ x"], "", "begins like “⟦calls⟧”"),
    (
        TOKENS,
        f"{MARKERS}.CALL_BEGIN",
        ["⟦call⟧", "⟦call⟧s"],
        f"{MARKERS}.CALL_BEGIN.1",
        "begins like",
    ),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["<|a|>"] * 9, "", "a list of at most 8 markers"),
    (
        TOKENS,
        "turn_markers",
        ["⟦call⟧"],
        "",
        "is also the marker at grammars.0.markers.CALL_BEGIN.0",
    ),
    (TOKENS, f"{MARKERS}.CALL_BEGIN", ["⟦over⟧x"], "", "begins like “⟦over⟧” at turn_markers"),
    (TOKENS, "reasoning.begin", ["<think>"], "", "set split_thinking"),
    (TOKENS, "reasoning.end", [], "", "needs a marker for its end"),
    (TOKENS, "split_thinking", "always", "", "never, marked, opened, or null"),
    (TOKENS, "sample", "a\x07", "", "control characters"),
    (TOKENS, "sample", "a" * 4001, "", "at most 4000 characters"),
    (TOKENS, "detect.patterns", ["*"], "detect.patterns.0", "too many models"),
    (TOKENS, "detect.patterns", ["*-*"], "detect.patterns.0", "too many models"),
    (TOKENS, "detect.patterns", ["[a-z]*"], "detect.patterns.0", "Use letters, digits"),
    (TOKENS, "detect.patterns", "acme", "", "List at most 32 patterns"),
    (TAGS, f"{MARKERS}.FUNCTION", ["<acme:do>"], "", "{name} is missing"),
    (TAGS, f"{MARKERS}.FUNCTION", ["<acme:{name}={name}>"], "", "twice"),
    (TAGS, f"{MARKERS}.FUNCTION", ["<acme:do {name}"], "", "write the text that ends it"),
    (TAGS, f"{MARKERS}.FUNCTION", ["<acme:do {name}end>"], "", "that no name contains"),
    (TAGS, f"{MARKERS}.FUNCTION", ["<acme:do {name}{suffix}>"], "", "Write text between"),
    (TAGS, f"{MARKERS}.PARAMETER", ["<acme:with {key} {type}>"], "", "as an attribute"),
    (TAGS, f"{MARKERS}.PARAMETER_END", [], "", "PARAMETER needs PARAMETER_END"),
    (
        TAGS,
        f"{MARKERS}.PARAMETER_END",
        ["</acme:do>"],
        f"{MARKERS}.FUNCTION_END",
        "is also the marker",
    ),
    (TAGS, f"{MARKERS}.PARAMETER_END", ["</acme:{key}>"], "", "without an attribute"),
]


@pytest.mark.parametrize(("document", "path", "value", "place", "words"), REFUSED)
def test_nonsense_is_refused_by_name(document, path, value, place, words):
    with pytest.raises(DefinitionError) as refused:
        read_definition(changed(document, path, value))
    found = dict(refused.value.problems)
    assert words in found[place or path]
    assert str(refused.value).startswith(refused.value.problems[0].path)


@pytest.mark.parametrize("document", [None, [], "x", 1, True])
def test_only_an_object_is_a_definition(document):
    with pytest.raises(DefinitionError, match="JSON object"):
        read_definition(document)


def test_all_problems_are_named_at_once():
    document = changed(changed(TAGS, f"{MARKERS}.FUNCTION", ["do"]), "detect.patterns", ["*"])
    with pytest.raises(DefinitionError) as refused:
        read_definition(document)
    assert len(refused.value.problems) >= 2


@given(seed=st.binary(min_size=1, max_size=8))
@settings(max_examples=80)
def test_a_hostile_definition_is_refused_or_gives_the_same_events_at_any_split(seed):
    TARGETS["definition"](seed)


@given(random=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_work_grows_linearly_for_every_definition_that_is_accepted(random):
    document = hostile_definition(random)
    try:
        native = read_definition(document).native
    except DefinitionError:
        return
    opening, unit = text_made_of(document, random), text_made_of(document, random)[:100] or "<"
    once, _ = work(native, opening + unit * (1000 // len(unit)), 50)
    twice, held = work(native, opening + unit * (2000 // len(unit)), 50)
    assert twice < 2.5 * once + 200
    assert held < 1500


def test_the_largest_definition_is_compiled_in_proportion_to_its_size():
    def compiled(count):
        markers = [f"<|{number:02}{'x' * 24}|>" for number in range(count)]
        document = {"grammars": [{"kind": "played_output", "markers": {}}]}
        document["grammars"][0]["markers"] = {
            "OUTPUT_BEGIN": markers[: count // 2],
            "OUTPUT_END": markers[count // 2 :],
        }
        with Profile() as profile:
            read_definition(document)
        return sum(entry.callcount for entry in profile.getstats())

    compiled(2)
    assert compiled(16) < 3 * compiled(8)


def test_a_name_outside_of_a_whole_call_is_text():
    native = OPERATOR_FORMATS["operator-tags"].native
    for text in ("See <acme:calls> for tags.", '`<acme:do tool="f">` begins a call.'):
        assert text_of(read_text(native, text)) == text


@pytest.mark.parametrize("name", OPERATOR_CALLS)
def test_plain_text_passes(name):
    native = OPERATOR_FORMATS[name].native
    assert text_of(read_text(native, "a < b ⟦c⟧")) == "a < b ⟦c⟧"


DOCUMENTED = [
    json.loads(block)
    for block in re.findall(
        r"^```json\n(.*?)^```",
        (Path(__file__).parents[3] / "docs/formats.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
]


@pytest.mark.parametrize("document", DOCUMENTED)
def test_a_documented_definition_is_accepted_and_reads_its_sample(document):
    definition = read_definition(document)
    assert calls_of(read_text(definition.native, definition.sample)) == [
        ("get_tide", '{"harbor": "Moss"}')
    ]


def test_every_kind_is_documented_with_an_example():
    assert {each["kind"] for document in DOCUMENTED for each in document["grammars"]} == {*KINDS}


def test_every_kind_role_option_and_placeholder_is_documented():
    text = (Path(__file__).parents[3] / "docs/formats.md").read_text()
    for name, kind in KINDS.items():
        for word in (name, *kind.roles, *kind.options):
            assert f"`{word}`" in text, word
    for placeholder in PLACEHOLDERS:
        assert f"`{{{placeholder}}}`" in text, placeholder
