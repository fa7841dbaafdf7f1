"""Every way to fail has its plain sentence."""

import re

import pytest

from proxy.errors import ErrorCode
from proxy.models import Exchange, Outcome
from proxy.support.failure_text import sentence_of, why


def row(**fields):
    defaults = {"upstream": "openrouter", "format": "kimi", "outcome": Outcome.UPSTREAM_ERROR}
    return Exchange(**(defaults | fields))


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_is_told_in_one_plain_sentence(code):
    sentence = why(row(error_code=code))
    assert re.fullmatch(r"[A-Zo][^.]+\.", sentence), sentence
    assert code not in sentence
    assert "{" not in sentence
    assert len(sentence) < 90


@pytest.mark.parametrize("code", ErrorCode)
def test_of_no_upstream_in_particular_it_is_a_sentence_too(code):
    sentence = sentence_of(code)
    assert sentence[0].isupper()
    assert "The upstream" not in sentence[1:]


def test_what_no_code_tells_is_told_too():
    leak = row(outcome=Outcome.OK, format="standard", leaked_format="kimi")
    assert why(leak) == (
        "The client got tool calls as plain text: the model writes kimi, and was read as standard."
    )
    left = row(outcome=Outcome.CLIENT_DISCONNECT, error_code="upstream_reset")
    assert "client left" in why(left)
    assert why(row(outcome=Outcome.OK)) == ""
    assert "another version" in why(row(error_code="of_the_future"))
