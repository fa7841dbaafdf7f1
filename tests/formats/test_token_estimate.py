"""The estimate of input tokens, compared with real tokenizers.

The samples were counted with the tokenizers listed in docs/tokens.md, which also has the errors.
"""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import Conversation, Tool, estimate_tokens
from formats.conversation import (
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    RedactedReasoning,
    Role,
    ServerTool,
    Text,
    ToolCall,
    ToolResult,
)
from formats.image_tokens import image_tokens

BASE = Conversation("m", (Message(Role.USER, ()),))


def tokens(*parts: Part) -> int:
    """Return the tokens that parts add to a conversation."""
    return estimate_tokens(Conversation("m", (Message(Role.USER, parts),))) - estimate_tokens(BASE)


def text_tokens(text: str) -> int:
    return tokens(Text(text))


# Each sample with the tokens counted by Claude 2, o200k, Qwen3 and DeepSeek V4.
SAMPLES = {
    "prose": (
        "The harbour master keeps a book of the tides. Every morning she writes down when the "
        "water was highest, and how far up the old stone wall it came. After some years the book "
        "knew more about the sea than anyone in the village, and people began to ask it questions.",
        (57, 56, 57, 56),
    ),
    "code": (
        "def high_water(readings: list[Reading], *, wall: float = 2.5) -> Reading | None:\n"
        '    """The highest reading that came over the wall."""\n'
        "    above = [reading for reading in readings if reading.level > wall]\n"
        "    if not above:\n"
        "        return None\n"
        "    return max(above, key=lambda reading: (reading.level, -reading.taken_at))\n",
        (85, 80, 80, 81),
    ),
    "log": (
        "2025-03-14T06:12:09Z INFO tide.gauge[412]: level=2.31 wall=2.50 station=moss-03\n"
        "2025-03-14T06:17:09Z INFO tide.gauge[412]: level=2.47 wall=2.50 station=moss-03\n"
        "2025-03-14T06:22:10Z WARN tide.gauge[412]: level=2.58 wall=2.50 station=moss-03\n",
        (112, 108, 144, 109),
    ),
    "schema": (
        '{"type":"object","properties":{"harbour":{"type":"string","description":"The name of the '
        'harbour, as the chart has it"},"days":{"type":"integer","minimum":1,"description":"How '
        'many days to look ahead"},"unit":{"type":"string","enum":["metres","feet"]}},'
        '"required":["harbour"],"additionalProperties":false}',
        (74, 75, 73, 79),
    ),
    "arguments": (
        '{"file_path":"/srv/tides/gauge.py","old_string":"    level = read()\\n    return level\\n",'
        '"new_string":"    level = read()\\n    if level > WALL:\\n        warn(\\"high water\\")\\n'
        '    return level\\n"}',
        (64, 55, 54, 60),
    ),
    "chinese": (
        "港务长有一本记录潮汐的册子。每天早晨她写下水位最高的时刻，以及海水漫上旧石墙多远。"
        "几年以后，这本册子比村里任何人都更了解大海，人们开始向它提问。",
        (82, 60, 51, 48),
    ),
    "russian": (
        "Смотрительница гавани ведёт книгу приливов. Каждое утро она записывает, когда вода стояла "
        "выше всего и как далеко она поднялась по старой каменной стене. Через несколько лет книга "
        "знала о море больше, чем любой житель деревни.",
        (113, 59, 69, 68),
    ),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_known_samples_are_within_the_documented_error(kind):
    text, counts = SAMPLES[kind]
    middle = sum(counts) / len(counts)
    assert 0.9 * middle <= text_tokens(text) <= 1.25 * middle
    # For other scripts, tokenizers differ by half.
    lowest, highest = (0.8, 1.2) if text.isascii() else (0.65, 1.4)
    for count in counts:
        assert lowest * count <= text_tokens(text) <= highest * count


@pytest.mark.parametrize("kind", SAMPLES)
def test_tokens_grow_linearly_with_the_text(kind):
    text, _ = SAMPLES[kind]
    once = text_tokens(text)
    for times in (2, 10, 100, 1000):
        assert text_tokens(text * times) == pytest.approx(once * times, rel=0.15)


def test_an_empty_conversation_is_never_zero():
    assert estimate_tokens(Conversation("m", ())) >= 1
    assert text_tokens("") == 0
    assert text_tokens("a") >= 1


@pytest.mark.parametrize(
    "part",
    [
        Text("What is the tide?"),
        Image(url="https://tides.example/wall.png"),
        Document(text="High water at six."),
        Document(media_type="application/pdf", data="JVBERi0xLjQK"),
        Document(url="https://tides.example/almanac.pdf"),
        Reasoning("The wall is 2.5 m."),
        Reasoning("", signature="c2lnbmF0dXJl"),
        RedactedReasoning("cmVkYWN0ZWQ="),
        ToolCall("call_1", "get_tide", b"{}"),
        ToolResult("call_1"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_every_kind_of_part_adds_tokens(part):
    assert tokens(part) > 0
    assert abs(tokens(part, part) - 2 * tokens(part)) <= 1  # texts are weighed together


def test_system_messages_tools_and_schemas_add_tokens():
    tool = Tool("get_tide", None, b"{}")
    richer = [
        Conversation("m", BASE.messages, system=(Text("Be brief."),)),
        Conversation("m", BASE.messages * 2),
        Conversation("m", BASE.messages, output_schema=b'{"type":"object"}'),
        Conversation("m", BASE.messages, server_tools=(ServerTool("web_search_1", "web_search"),)),
        Conversation("m", BASE.messages, tools=(tool,)),
        Conversation("m", BASE.messages, tools=(tool, tool)),
        Conversation("m", BASE.messages, tools=(tool, Tool("get_tide", "Tells it.", b"{}"))),
    ]
    assert all(estimate_tokens(conversation) > estimate_tokens(BASE) for conversation in richer)
    by_tools = [estimate_tokens(conversation) for conversation in richer[-3:]]
    assert by_tools == sorted(set(by_tools))


def test_the_content_of_a_tool_result_counts():
    text, image = Text("High water at six. " * 50), Image(url="https://tides.example/wall.png")
    bare = tokens(ToolResult("call_1"))
    assert tokens(ToolResult("call_1", (text, image))) == bare + tokens(text) + tokens(image)


def test_the_arguments_of_a_call_count():
    short, long = (ToolCall("c", "Write", b'{"a":"%s"}' % (b"word " * n)) for n in (10, 1000))
    assert tokens(long) - tokens(short) == pytest.approx(text_tokens("word " * 990), rel=0.05)


def test_encrypted_reasoning_counts_less_than_text_of_its_length():
    sealed = "QUJD" * 500
    assert 0 < tokens(RedactedReasoning(sealed)) < text_tokens(sealed)
    assert 0 < tokens(Reasoning("", sealed)) < text_tokens(sealed)


@pytest.mark.parametrize(
    "sample", ["港务长有一本记录潮汐的册子", "물때를 적은 책", "潮の本をつける", "😀🌊⚓"]
)
def test_other_scripts_count_more_per_character_than_english(sample):
    english = "the harbour master keeps a book of the tides"
    assert text_tokens(sample) / len(sample) > 2 * text_tokens(english) / len(english)


def test_long_texts_of_three_byte_characters_are_sampled_by_character():
    # If bytes were sampled, a step of 3 would hit only first bytes, or none.
    once = text_tokens("潮" * 500)
    for length in (1025, 1500, 4000, 5000, 40_000):
        assert text_tokens("潮" * length) == pytest.approx(once * length / 500, rel=0.01)


@pytest.mark.parametrize("character", ["\\", "\n", "é", "潮", "😀"])
def test_the_heaviest_texts_do_not_overflow_the_sum(character):
    once = text_tokens(character * 100)
    assert text_tokens(character * 512) == pytest.approx(once * 5.12, rel=0.02)
    assert text_tokens(character * 200_000) == pytest.approx(once * 2000, rel=0.02)


@given(st.text(alphabet=st.characters(), max_size=3000))
def test_any_text_counts_within_reason(text):
    assert min(len(text), 1) <= text_tokens(text) <= 4 * len(text) + 1


def test_text_documents_count_as_their_text():
    text = "High water at six. " * 50
    encoded = base64.b64encode(text.encode()).decode()
    as_text = tokens(Document(text=text))
    assert tokens(Document(media_type="text/plain", data=encoded)) == as_text
    assert tokens(Document(media_type="text/plain", data=text + "é")) >= as_text
    assert tokens(Document(text=text, title="Tides")) > as_text


def test_a_pdf_counts_by_its_size_up_to_a_limit():
    sizes = [
        tokens(Document(media_type="application/pdf", data="A" * n)) for n in (9, 10**6, 10**8)
    ]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] < 300_000


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"".join(
        n.to_bytes(4, "big") for n in (width, height)
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + b"".join(n.to_bytes(2, "little") for n in (width, height))


def jpeg(width: int, height: int, *, before: int = 14) -> bytes:
    """Return a JPEG with a segment of `before` bytes before the frame header."""
    first = b"\xff\xe1" + (before + 2).to_bytes(2, "big") + b"\xff" * before
    table = b"\xff\xc4\0\x05abc"
    frame = b"\xff\xc2\0\x11\x08" + b"".join(n.to_bytes(2, "big") for n in (height, width))
    return b"\xff\xd8" + first + table + frame + b"\x03"


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + body


def extended(width: int, height: int) -> bytes:
    sides = b"".join((n - 1).to_bytes(3, "little") for n in (width, height))
    return webp(b"VP8X", b"\0\0\0\0" + sides)


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + (width - 1 | height - 1 << 14).to_bytes(4, "little") + b"\0" * 8)


def lossy(width: int, height: int) -> bytes:
    sides = b"".join(n.to_bytes(2, "little") for n in (width, height))
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + sides)


def image(data: bytes) -> Image:
    return Image(media_type="image/any", data=base64.b64encode(data + b"\0" * 99).decode())


@pytest.mark.parametrize("header", [png, gif, jpeg, extended, lossless, lossy])
def test_an_image_counts_by_its_pixels(header):
    assert image_tokens(image(header(300, 200))) == 300 * 200 // 750 + 1
    assert image_tokens(image(header(1000, 1000))) == 1000 * 1000 // 750 + 1
    assert image_tokens(image(header(8000, 80))) == pytest.approx(1568 * 15.68 / 750, abs=1)
    assert image_tokens(image(header(4000, 3000))) == 1600


@pytest.mark.parametrize("before", [0, 1, 2, 60_000])
def test_the_size_of_a_jpeg_is_found_after_other_segments(before):
    assert image_tokens(image(jpeg(300, 200, before=before))) == 81


@pytest.mark.parametrize(
    "data",
    [
        "",
        "AAAA",
        "not base64",
        "é",
        *(base64.b64encode(png(0, 9)[:n]).decode() for n in (3, 18, 24)),
    ],
)
def test_an_image_of_unknown_size_counts_as_a_large_one(data):
    assert image_tokens(Image(media_type="image/png", data=data)) == 1600


@pytest.mark.parametrize("tail", [b"", b"\xff", b"\xff\xe0\0\x02" * 500, b"\x12" * 50])
def test_a_jpeg_without_a_frame_counts_as_a_large_image(tail):
    assert image_tokens(image(b"\xff\xd8" + tail)) == 1600
