"""Framing of Anthropic streams that clients depend on."""

import itertools
import json

import pytest

from tests.support.anthropic_frames import block, message, part, text, tool
from tests.support.client_views import payloads, view
from tests.support.native_calls import write_call
from tests.support.official_sdks import streamed_by_anthropic
from tests.support.wire import byte_cuts, event_reads, relay, text_from

THINKING = {"type": "thinking", "thinking": "", "signature": ""}
HM = {"type": "thinking_delta", "thinking": "Hm."}
SIGNED = {"type": "signature_delta", "signature": "s" * 200}


def signatures(body):
    """Return the signature deltas, after checking that each is the last delta of its block."""
    found = []
    events = [event for _, event in payloads(body)]
    for event, following in itertools.pairwise(events):
        if event.get("delta", {}).get("type") == "signature_delta":
            assert following == {"type": "content_block_stop", "index": event["index"]}
            found.append(event["delta"]["signature"])
    return found


@pytest.mark.parametrize("upstream", ["anthropic", "openai"])
def test_c1_unsigned_thinking_has_an_empty_signature_before_its_end(upstream):
    """C1: Vercel's AI SDK drops thinking without a signature_delta."""
    body = text_from(upstream, ["Hm", "."], "reasoning")
    if upstream == "anthropic":  # as other vendors send it
        unsigned = b'"delta":{"type":"signature_delta","signature":""}'
        body = b"\n\n".join(event for event in body.split(b"\n\n") if unsigned not in event)
    for parts in [[body], event_reads(body), *byte_cuts(body, 3)]:
        sent = relay(parts, client="anthropic", upstream=upstream)
        assert signatures(sent) == [""]
        [thinking] = streamed_by_anthropic(sent).content
        assert (thinking.type, thinking.thinking, thinking.signature) == ("thinking", "Hm.", "")


def test_c1_a_signature_is_never_replaced():
    """C1: a client that reads a second delta would lose the first."""
    body = message(block(0, THINKING, HM, SIGNED), block(1, tool(), part("{}")), stop="tool_use")
    for parts in [[body], event_reads(body)]:
        sent = relay(parts, client="anthropic", upstream="anthropic")
        assert sent == body
        assert signatures(sent) == ["s" * 200]


@pytest.mark.parametrize("ending", ["block end missing", "call in the text"])
def test_c1_a_signature_that_was_passed_through_is_not_followed_by_an_empty_one(ending):
    """C1: the encoder continues after bytes of the upstream."""
    if ending == "call in the text":
        later = block(1, {"type": "text", "text": ""}, text(write_call("kimi", "ping", {"a": 1})))
        body = message(block(0, THINKING, HM, SIGNED), later)
    else:
        body = message(block(0, THINKING, HM, SIGNED, stop=False))
    for parts in [[body], event_reads(body)]:
        sent = relay(parts, client="anthropic", upstream="anthropic", format_name="kimi")
        assert signatures(sent) == ["s" * 200]
        assert view(sent, "anthropic").reasoning == "Hm."
        assert streamed_by_anthropic(sent).content[0].signature == "s" * 200


def test_c1_thinking_in_several_blocks_has_a_signature_each():
    """C1: a block of thinking before a call, and one after it."""
    deltas = [{"reasoning_content": "One."}, {"content": "Text."}, {"reasoning_content": "Two."}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    assert signatures(relay(body, client="anthropic")) == ["", ""]
