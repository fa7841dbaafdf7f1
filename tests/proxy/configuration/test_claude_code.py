"""The variables and arguments for a session of Claude Code."""

import pytest

from proxy.configuration.claude_code import (
    permission_arguments,
    session_model,
    session_variables,
)


@pytest.mark.parametrize(
    ("model", "window", "expected"),
    [
        ("local", 32_768, {"MAX_CONTEXT_TOKENS": "32768"}),
        (
            "claude-opus",
            262_144,
            {"MAX_CONTEXT_TOKENS": "262144", "AUTO_COMPACT_WINDOW": "262144"},
        ),
        (
            "claude-opus",
            65_536,
            {"MAX_CONTEXT_TOKENS": "65536", "AUTO_COMPACT_WINDOW": "100000", "PCT": "56"},
        ),
        (
            "claude-opus",
            1024,
            {"MAX_CONTEXT_TOKENS": "1024", "AUTO_COMPACT_WINDOW": "100000", "PCT": "1"},
        ),
        ("claude-opus", None, {}),
    ],
)
def test_a_session_gets_the_context_window_of_its_model(model, window, expected):
    """C7: Claude Code ignores one variable for its own models, and the other below 100,000."""
    names = {"PCT": "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"}
    variables = {names.get(name, f"CLAUDE_CODE_{name}"): v for name, v in expected.items()}
    # C5: the safety checks of auto mode go to the gateway as ordinary requests.
    assert session_variables(model, window) == {"CLAUDE_CODE_AUTO_MODE_SERVER": "0", **variables}


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ([], "claude-opus"),
        (["--model", "local"], "local"),
        (["-p", "hi", "--model=sonnet"], "claude-sonnet"),
        (["--model"], "claude-opus"),
    ],
)
def test_the_model_of_a_session_is_that_of_the_arguments(arguments, model):
    assert session_model(arguments) == model


def test_the_model_of_the_environment_counts_without_an_argument():
    assert session_model([], "local") == "local"
    assert session_model(["--model", "haiku"], "local") == "claude-haiku"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-p", "hi"], ("--permission-mode", "default")),
        (["--permission-mode", "auto"], ()),
        (["--permission-mode=plan"], ()),
        (["--dangerously-skip-permissions"], ()),
    ],
)
def test_a_permission_mode_is_selected_unless_the_user_selects_one(arguments, expected):
    assert permission_arguments(arguments) == expected
