"""Outputs of tools that the model invents after its own call."""

import pytest

from formats import NoticeCode, collect
from formats.conversation import Text, ToolCall
from tests.support.wire import cuts, decode, event_reads, text_from

CALL = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>"
)
BEGIN = "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>"
END = "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
MORE = "<｜tool▁output▁end｜>\n<｜tool▁output▁begin｜>"
NEXT_TURN = "<｜Assistant｜>"


@pytest.mark.parametrize(
    ("output", "rest"),
    [
        (f"{BEGIN}1 < 2{END}", "So it is."),
        (f"{BEGIN}1{MORE}{CALL}{END}", "So it is."),
        (f"{BEGIN}1{NEXT_TURN}", "So it is."),
        ("<｜tool▁output▁begin｜>1<｜tool▁output▁end｜>", " So it is."),
        (f"{BEGIN}the end is missing", ""),
    ],
)
def test_t10_an_invented_output_is_dropped_with_a_notice(output, rest):
    """T10"""
    for pieces in cuts(f"Let me see.{CALL}{output}{rest}"):
        body = event_reads(text_from("openai", pieces, "content"))
        reply = collect(decode(body, format_name="deepseek"))
        assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["f"]
        texts = [part.text for part in reply.parts if isinstance(part, Text)]
        assert texts == (["Let me see.", rest] if rest else ["Let me see."])
        assert NoticeCode.TOOL_OUTPUT_DROPPED in [notice.code for notice in reply.notices]
        assert reply.failure is None
