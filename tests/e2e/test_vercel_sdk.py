"""Vercel's AI SDK, on which opencode is built, keeps thinking and understands errors."""

import pytest

from tests.e2e import vercel
from tests.support.chat import chunk, data, reply, stream
from tests.support.gateway import KEY
from tests.support.wire import calls, entry

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not vercel.is_installed(), reason="Vercel's AI SDK is not installed: run `make e2e`"
    ),
]
DIALECTS = ("anthropic", "openai")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_c1_thinking_between_calls_comes_back(scripted_gateway, scripted, tmp_path, dialect):
    """C1: without a signature_delta the SDK dropped it, and the model lost its reasoning."""
    model = f"test/thinks-{dialect}"
    call = calls(entry(0, "call_1", "look", '{"path":"x"}') | {"type": "function"})
    thoughts = [{"reasoning_content": "Hm, "}, {"reasoning_content": "look."}]
    script = scripted.script(
        model,
        reply(stream(*thoughts, call, finish="tool_calls")),
        reply(stream({"content": "Done."})),
    )
    result = vercel.run(dialect, scripted_gateway.url, KEY, model, tmp_path)
    assert (result["text"], result["reasoning"], result["errors"]) == ("Done.", "Hm, look.", [])
    turn = result["bodies"][1]["messages"][1]
    if dialect == "anthropic":
        assert turn["content"][0] == {"type": "thinking", "thinking": "Hm, look.", "signature": ""}
    else:
        assert turn["reasoning_content"] == "Hm, look."
    assert len(script.requests) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_c4_an_error_in_a_stream_has_a_type_and_the_request_id(
    scripted_gateway, scripted, tmp_path, dialect
):
    """C4, N2: agents decide by the type whether to retry, and print the message."""
    model = f"test/fails-{dialect}"
    scripted.script(model, reply(chunk({"content": "so"}), data({"error": {"message": "Full"}})))
    result = vercel.run(dialect, scripted_gateway.url, KEY, model, tmp_path)
    [error] = result["errors"]
    assert result["text"] == "so"
    assert error["message"].startswith("Full (request req_")
    assert error["type"] == {"anthropic": "overloaded_error", "openai": "server_error"}[dialect]
