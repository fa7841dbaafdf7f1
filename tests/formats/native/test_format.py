"""Formats whose grammars share markers."""

from formats import (
    Limits,
    MessageEnd,
    StopReason,
    TextDelta,
    Toolbox,
    ToolCallDelta,
    ToolCallStart,
    merge_deltas,
)
from formats.native.format import NativeFormat
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    FUNCTION,
    FUNCTION_END,
    PARAMETER,
    PARAMETER_END,
    Function,
    Parameter,
    TagGrammar,
)
from formats.native.markers import literal
from formats.native.rescue import CallRescue


def tags(function, parameter):
    """A grammar of tags in a block of the same name as every other's."""
    return TagGrammar(
        {
            BLOCK: [literal("<calls>")],
            FUNCTION: [(*literal(f"<{function}="), "[a-z]{1,9}", ">")],
            PARAMETER: [(*literal(f"<{parameter}="), "[a-z]{1,9}", ">")],
            PARAMETER_END: [literal(f"</{parameter}>")],
            FUNCTION_END: [literal(f"</{function}>")],
            BLOCK_END: [literal("</calls>")],
        },
        read_function=lambda tag: Function(tag[len(function) + 2 : -1]),
        read_parameter=lambda tag: Parameter(tag[len(parameter) + 2 : -1]),
        strips_newlines=False,
    )


NATIVE = NativeFormat([tags("do", "with"), tags("run", "given")])


def read(*pieces):
    """What the format makes of a text: text, names and arguments, in order."""
    rescue = CallRescue(NATIVE, Toolbox(), Limits())
    fed = [*map(TextDelta, pieces), MessageEnd(StopReason.END_TURN)]
    events = [event for each in fed for event in rescue.feed([each])]
    shown = [e for e in events if isinstance(e, TextDelta | ToolCallStart | ToolCallDelta)]
    return [
        event.name
        if isinstance(event, ToolCallStart)
        else getattr(event, "text", None) or event.json
        for event in merge_deltas(shown)
    ]


def check(text, expected):
    assert read(text) == expected
    assert read(*text) == expected


def test_the_first_grammar_that_reads_what_follows_a_shared_opener_takes_the_call():
    check("<calls><do=a><with=x>1</with></do></calls>", ["a", '{"x": "1"}'])
    check("<calls><run=b><given=y>2</given></run></calls>", ["b", '{"y": "2"}'])
    check(
        "One <calls><do=a></do></calls> two <calls><run=b></run></calls>",
        ["One ", "a", "{}", " two ", "b", "{}"],
    )


def test_a_shared_opener_that_no_grammar_reads_is_text():
    check("See <calls> and </calls>.", ["See <calls> and </calls>."])
