"""Failure texts for support staff: one plain sentence for every failure."""

import re

import pytest

from proxy.errors import ErrorCode
from proxy.models import Exchange, Outcome
from proxy.support.failure_text import explain_code, explain_failure


def row(**fields):
    defaults = {"upstream": "openrouter", "format": "kimi", "outcome": Outcome.UPSTREAM_ERROR}
    return Exchange(**(defaults | fields))


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_one_plain_sentence(code):
    sentence = explain_failure(row(error_code=code))
    assert re.fullmatch(r"[A-Zo][^.]+\.", sentence), sentence
    assert code not in sentence
    assert "{" not in sentence
    assert len(sentence) < 90


@pytest.mark.parametrize("code", ErrorCode)
def test_sentences_without_an_upstream_start_with_a_capital_letter(code):
    sentence = explain_code(code)
    assert sentence[0].isupper()
    assert "The upstream" not in sentence[1:]


def test_leaks_disconnects_and_unknown_codes_are_explained():
    leak = row(outcome=Outcome.OK, format="standard", leaked_format="kimi")
    assert explain_failure(leak) == (
        "The client got tool calls as plain text: the model writes kimi, "
        "but its answers are decoded as standard."
    )
    unread = row(outcome=Outcome.OK, format="auto", leaked_format="kimi")
    assert explain_failure(unread) == (
        "The client got markup of kimi as plain text: auto reads only whole calls of tools that "
        "the client declared."
    )
    disconnect = row(outcome=Outcome.CLIENT_DISCONNECT, error_code="upstream_reset")
    assert "client disconnected" in explain_failure(disconnect)
    assert explain_failure(row(outcome=Outcome.OK)) == ""
    assert "another version" in explain_failure(row(error_code="of_the_future"))
