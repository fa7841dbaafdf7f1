"""The page of a call whose arguments are not JSON: all of them, with the first error marked once."""

import pytest

from tests.browser.traffic import question, wait_for_exchanges
from tests.support.chat import reply
from tests.support.wire import stream

ARGUMENTS = '{"harbor": "Bergen", <b onclick="alert(1)">days</b>: 2, "why": "' + "x" * 90 + '"}'
MODEL = "acme/invalid"


@pytest.fixture(scope="module")
def request_id(gateway, upstream):
    function = {"name": "get_tide", "arguments": ARGUMENTS[:25]}
    first = {"index": 0, "id": "call_1", "type": "function", "function": function}
    rest = [
        {"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[n : n + 10]}}]}
        for n in range(25, len(ARGUMENTS), 10)
    ]
    upstream.script(MODEL, reply(stream({"tool_calls": [first]}, *rest)))
    with gateway.client() as client:
        response = client.post("/v1/messages", json=question(MODEL))
    wait_for_exchanges(gateway, 1)
    return response.headers["request-id"]


@pytest.mark.parametrize("width", [1360, 390])
def test_invalid_arguments_are_shown_whole_with_one_place_marked(request_id, people, width):
    """N3. The arguments are hostile text as well."""
    with people("sam", viewport={"width": width, "height": 900}) as sam:
        sam.visit(f"/admin/audit/exchanges/{request_id}/")
        sent = sam.page.locator("section[aria-labelledby=c-model]")
        assert sent.locator(".part.tool-call pre").inner_text().strip() == ARGUMENTS
        assert sent.inner_text().count("invalid_json") == 1
        assert sam.page.locator(".event.failure b").all_inner_texts() == [
            "ToolCallFailed",
            "MessageFailed",
        ]
        assert sam.page.locator(".s.wrong").all_inner_texts() == ["<"]
        sam.check()
        sam.picture(f"failed-call-{width}")
