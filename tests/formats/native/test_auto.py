"""The format `auto`: documents pass unchanged, and calls of every family are read."""

import re
from pathlib import Path
from random import Random

import pytest

from formats import (
    AUTO,
    FORMATS,
    Limits,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    StopReason,
    TextDelta,
    Tool,
    Toolbox,
    collect,
    merge_deltas,
)
from formats.conversation import Text, ToolCall
from formats.native.rescue import CallRescue
from tests.support.native_calls import CALLS, write_call
from tests.support.native_vectors import IN_TEXT, expected, text_and_calls
from tests.support.wire import cuts, toolbox

ROOT = Path(__file__).parents[3]
PATHS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("tests/**/*.md"),
    *ROOT.glob("formats/native/**/*.py"),
]
DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text() for path in PATHS}
NAMES = {
    "Read",
    *(name for text in DOCUMENTS.values() for name in re.findall(r"\b(?:get|list)_\w+", text)),
}
TOOLS = Toolbox(Tool(name, None, b"{}") for name in NAMES)

# Samples in docstrings that stand at the beginning of their lines, without a fence.
CALLS_IN_DOCUMENTS = {
    "formats/native/families/ernie.py": ["get_tide"],
    "formats/native/families/internlm.py": ["get_tide"],
    "formats/native/families/jamba.py": ["get_tide", "get_wind"],
    "formats/native/families/longcat.py": ["get_tide"],
}


def read(format_name, pieces, tools=TOOLS, channel="content", limits=Limits()):  # noqa: B008
    delta = TextDelta if channel == "content" else ReasoningDelta
    rescue = CallRescue(FORMATS[format_name], tools, limits)
    events = [MessageStart("", ""), *map(delta, filter(None, pieces))]
    events.append(MessageEnd(StopReason.END_TURN))
    return merge_deltas(event for read in events for event in rescue.feed([read]))


def names_of(reply):
    return [part.name for part in reply.parts if isinstance(part, ToolCall)]


def split(text, seed):
    random = Random(seed)
    at, pieces = 0, []
    while at < len(text):
        pieces.append(text[at : at + random.choice((1, 3, 9, 40))])
        at += len(pieces[-1])
    return pieces


def test_documents_about_the_formats_pass_unchanged():
    assert {"get_tide", "get_wind", "list_harbors"} <= NAMES
    assert len(DOCUMENTS) > 50
    with_calls = {}
    for path, text in DOCUMENTS.items():
        whole = read(AUTO, [text])
        assert read(AUTO, split(text, path)) == whole
        reply = collect(whole)
        if reply.parts != [Text(text)]:
            with_calls[path] = names_of(reply)
    assert with_calls == CALLS_IN_DOCUMENTS


WORDS = [
    "The tide ",
    "is high. ",
    "A call begins with ",
    "so ",
    "\n",
    "\n\n",
    "- ",
    "é ",
    "<b>",
    "`a` ",
]
MARKERS = sorted(
    {
        marker
        for vector in IN_TEXT
        for marker in re.findall(
            r"<[^<>\s]{1,40}>|\[/?[A-Z_]{4,}\]|✿\w+✿:?|to=functions\.\w+", vector["text"]
        )
    }
)
QUOTED = [
    "“%s”",
    "'%s'",
    "«%s»",
    "\n```\n%s\n```\n",
    "\n~~~xml\n%s\n~~~\n",
    "\n    %s\n",
    "\n> %s\n",
]


def made_up(random):
    """A text of half markers, half calls, quoted calls and calls of undeclared tools."""
    parts = []
    for _ in range(random.randrange(3, 12)):
        family = random.choice([name for name in CALLS if name in FORMATS])
        call = write_call(family, "get_tide", {"harbor": "Moss", "days": [1, {}]})
        match random.randrange(6):
            case 0:
                parts.append(random.choice(MARKERS))
            case 1:
                parts.append(write_call(family, "get_boat", {"harbor": "Moss"}))
            case 2 if "\n" not in call:
                parts.append("\n" + random.choice(QUOTED) % call)
            case 3:
                # Without its arguments, whatever follows.
                parts.append(call[: call.index("harbor")] + "… ")
            case 4:
                parts.append("\n" + random.choice(QUOTED[3:5]) % call)
            case _:
                parts.append(random.choice(WORDS))
    return "".join(parts)


def test_made_up_texts_without_a_whole_call_pass_unchanged():
    random = Random(19)
    tools = Toolbox([Tool("get_tide", None, b"{}")])
    markers = 0
    for _ in range(300):
        text = made_up(random)
        markers += text.count("<")
        whole = read(AUTO, [text], tools)
        assert collect(whole).parts == [Text(text)]
        assert read(AUTO, split(text, text), tools) == whole
    assert markers > 2000


def tools_of(vector):
    """The tools of a vector, and those that it calls although they are not declared."""
    tools = toolbox(vector["tools"])
    called = [call["name"] for call in vector["expect"]["calls"]]
    others = [{"function": {"name": n, "parameters": {}}} for n in called if n not in tools]
    return toolbox([*vector["tools"], *others])


WITH_CALLS = [
    vector
    for vector in IN_TEXT
    if vector["format"] not in ("standard", AUTO)
    and vector["expect"]["calls"]
    and not vector["expect"]["error"]
]

BARE = re.compile(r"\s*\{|.*functools\s*\[|[^|]*\[\w+\(", re.DOTALL)
NOT_READ = {
    "qwen-033": "the call is in a fence",
    **{
        vector["id"]: "there is no marker"
        for vector in WITH_CALLS
        if vector["format"] in ("llama", "phi") and BARE.match(vector["text"])
    },
}


def test_calls_of_every_family_are_read_as_by_the_family():
    assert len(WITH_CALLS) > 650
    assert len(NOT_READ) < 70
    for vector in WITH_CALLS:
        tools, channel = tools_of(vector), vector["channel"]
        of_family = expected(vector)["calls"]
        events = read(AUTO, [vector["text"]], tools, channel)
        calls = text_and_calls(collect(events), channel, tools)["calls"]
        assert (calls == of_family) is (vector["id"] not in NOT_READ), vector["id"]


FAMILY_TOLD = {
    "ernie": "qwen",  # Hermes JSON
    "granite": "phi",
    "hunyuan": "jamba",
    AUTO: "kimi",  # Anthropic's XML
}


@pytest.mark.parametrize("family", [name for name in CALLS if name in FORMATS and name != "phi"])
def test_the_call_of_a_family_is_read_and_the_family_is_told(family):
    arguments = {"harbor": "Moss", "days": [1, {"a": None}]}
    text = "Let me look. " + write_call(family, "get_tide", arguments)
    for pieces in cuts(text):
        events = read(AUTO, pieces)
        reply = collect(events)
        assert text_and_calls(reply, "content") == {
            "text": "Let me look. ",
            "calls": [{"name": "get_tide", "arguments": arguments}],
        }
        told = [notice.detail for notice in reply.notices if notice.code == "family_read"]
        assert told == [FAMILY_TOLD.get(family, family)]
        assert reply.faults == []
