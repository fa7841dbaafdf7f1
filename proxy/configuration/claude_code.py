"""Environment variables that tell Claude Code about the gateway and the model of a session.

Tried with Claude Code 2.1.327. It asks the server for auto mode's safety checks, which only
Anthropic runs, unless CLAUDE_CODE_AUTO_MODE_SERVER is 0; then it runs them itself, with ordinary
requests to `claude-sonnet-…`. These variables tell it when to compact a conversation:

    CLAUDE_CODE_MAX_CONTEXT_TOKENS     for models that it does not know
    CLAUDE_CODE_AUTO_COMPACT_WINDOW    for all models, but for at least 100,000 tokens
    CLAUDE_AUTOCOMPACT_PCT_OVERRIDE    percentage at which it compacts, of the window less 20,000
"""

from collections.abc import Sequence

_MIN_WINDOW = 100_000
_RESERVE = 20_000
_ALIASES = ("opus", "sonnet", "haiku")
DEFAULT_MODEL = "claude-opus"
PERMISSION_MODE = ("--permission-mode", "default")
_PERMISSION_OPTIONS = ("--permission-mode", "--dangerously-skip-permissions")


def session_variables(model: str, window: int | None) -> dict[str, str]:
    """Return the variables for a session with a model and its context window, if that is known."""
    variables = {"CLAUDE_CODE_AUTO_MODE_SERVER": "0"}
    if window is None:
        return variables
    variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(window)
    if not model.startswith("claude"):
        return variables
    variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(max(window, _MIN_WINDOW))
    if window < _MIN_WINDOW:
        threshold = max(window - _RESERVE, window // 2)
        percentage = max(1, 100 * threshold // (_MIN_WINDOW - _RESERVE))
        variables["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"] = str(percentage)
    return variables


def session_model(arguments: Sequence[str], default: str = "") -> str:
    """Return the model that Claude Code asks for with these arguments."""
    model = _option(arguments, "--model") or default or DEFAULT_MODEL
    return f"claude-{model}" if model in _ALIASES else model


def permission_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that select a permission mode, unless the user selects one."""
    selected = any(argument.partition("=")[0] in _PERMISSION_OPTIONS for argument in arguments)
    return () if selected else PERMISSION_MODE


def _option(arguments: Sequence[str], name: str) -> str:
    value = ""
    for index, argument in enumerate(arguments):
        if argument == name:
            value = "".join(arguments[index + 1 : index + 2])
        elif argument.startswith(f"{name}="):
            value = argument.removeprefix(f"{name}=")
    return value
