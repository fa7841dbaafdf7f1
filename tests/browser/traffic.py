"""Scripted model answers and requests that the browser tests share."""

from typing import Any

from tests.support.chat import TOOLS, ask
from tests.support.gateway import Gateway
from tests.support.waiting import wait_for

LEAKING_MODEL = "acme/qwen-harbor-1"
"""Writes Kimi's markup under a name of another family, so that the markup leaks."""
UNKNOWN_MODEL = "acme/harbor-2"
"""Writes Kimi's markup under a name that tells nothing, so that `auto` reads it."""
BROKEN_MODEL = "moonshotai/kimi-broken"
"""Stops in the middle of a tool call."""
TOOL_CALL_PIECES = [
    "Let me look up the tide. ",
    "<|tool_calls_section",
    "_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argu",
    'ment_begin|>{"harbor": "Bergen",',
    ' "days": 2}<|tool_call_end|><|tool_calls_section_end|>',
]
TOOL_CALL = "".join(TOOL_CALL_PIECES)
BROKEN_TOOL_CALL = TOOL_CALL[:-60]
HOSTILE_TEXT = (
    "<script>window.__xss=1</script><img src=x onerror=window.__xss=1><svg onload=window.__xss=1>"
    "</pre></textarea>\u2028\u202edesrever\u200b\x1b[31mred <|tool_call_begin|> "
)


def question(model: str) -> dict[str, Any]:
    return ask(model, "When is high water in Bergen?", tools=TOOLS, stream=True)


def wait_for_exchanges(gateway: Gateway, number: int) -> None:
    """Wait until the audit has stored this many exchanges."""
    count = "SELECT COUNT(*) AS number FROM proxy_exchange"
    wait_for(lambda: gateway.rows(count)[0]["number"] >= number)
