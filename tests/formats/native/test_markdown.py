"""Code and quotations in Markdown, at any split of the text."""

import pytest

from formats.native.markdown import Markdown
from tests.support.wire import cuts

CODE = {
    "fence": "a\n```xml\n#",
    "second line of a block": "```\nx\n#",
    "fence with tildes": "~~~\n#",
    "info string of tildes": "~~~ #",
    "indented fence": "   ```\n#",
    "fence in a list": "- ```\n  #",
    "fence in a numbered list": "12. ```\n    x\n#",
    "other fence inside": "```\n~~~\n#",
    "shorter fence inside": "````\n```\n#",
    "fence with text inside": "```\n``` x\n#",
    "quoted fence inside": "```\n> ```\n#",
    "fence with Windows line ends": "```\r\n#",
    "second block": "```\n```\n```\n#",
    "indented line": "a\n    #",
    "tab": "a\n \t#",
    "block quote": "a\n  > #",
    "span": "a `b #",
    "span of two": "``a ` #",
    "span of three": "```a```` #",
}
TEXT = {
    "start": "#",
    "line": "a #",
    "after a block": "```\na\n```\n#",
    "after a block of tildes": "~~~a`b\n~~~~\n#",
    "after an indented end": "```\n  ```  \n#",
    "after a block in a list": "1. ```\n   a\n   ```\n#",
    "after a block with Windows line ends": "```\r\na\r\n```\r\n#",
    "after a span": "a `b` #",
    "after a span of two": "``a ` b`` #",
    "after a span of three": "```a``` b\n#",
    "line after a span that is open": "a `b\n#",
    "after an indented line": "    a\n#",
    "after a quotation": "> a\n#",
    "three blanks": "   #",
    "list": "- #",
    "number": "1. #",
    "greater than": "a > #",
    "two tildes": "~~ #",
}


@pytest.mark.parametrize(
    ("text", "is_code"),
    [*((text, True) for text in CODE.values()), *((text, False) for text in TEXT.values())],
    ids=[*CODE, *TEXT],
)
def test_code_and_quotations_are_known_at_their_place(text, is_code):
    before, _, _ = text.partition("#")
    for pieces in cuts(before):
        markdown = Markdown()
        for piece in pieces:
            markdown.add(piece)
        assert (markdown.is_in_block or markdown.is_in_span) is is_code, pieces


def test_after_a_call_a_line_goes_on():
    markdown = Markdown()
    markdown.skip()
    markdown.add("    ")
    assert not markdown.is_in_block
    markdown.add("\n    ")
    assert markdown.is_in_block


@pytest.mark.parametrize("unit", ["`", "~", " ", "1", "- ", "> ", "```\n", "`a"])
def test_little_of_a_line_is_kept(unit):
    for text in (unit * 10_000, "```\n" + unit * 10_000):
        markdown = Markdown()
        for at in range(0, len(text), 7):
            markdown.add(text[at : at + 7])
            assert len(markdown._head or "") <= 64
