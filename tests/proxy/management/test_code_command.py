"""`manage.py code`: starts Claude Code with the right environment."""

import pytest

from tests.support.gateway import KEY


@pytest.mark.parametrize("separator", [[], ["--"]])
def test_code_starts_claude_with_the_right_environment_and_passes_its_exit_code(
    demo_gateway, tmp_path, separator
):
    program = tmp_path / "claude"
    program.write_text(
        '#!/bin/sh\necho "$ANTHROPIC_BASE_URL|$ANTHROPIC_AUTH_TOKEN|$ANTHROPIC_API_KEY"\n'
        'echo "$CLAUDE_CODE_AUTO_MODE_SERVER|$CLAUDE_CODE_MAX_CONTEXT_TOKENS|$*"\nexit 7\n'
    )
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk-ant-of-another-user"}
    done = demo_gateway.manage("code", *separator, "-p", "hello there", environment=path)
    assert done.returncode == 7
    first, second = done.stdout.splitlines()
    assert first == f"{demo_gateway.url}|{KEY}|"
    assert second == "0||--permission-mode default -p hello there"


def test_code_tells_claude_the_context_window_of_the_sessions_model(demo_gateway, tmp_path):
    """C7: without it Claude Code takes a window of a million tokens for granted."""
    demo_gateway.edit(
        "ModelRoute.objects.create(pattern='small/one', context_window=65536, "
        "upstream=Upstream.objects.get(name='demo'))"
    )
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho "$CLAUDE_CODE_MAX_CONTEXT_TOKENS|$*"\n')
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    arguments = ["--model", "small/one", "--permission-mode", "plan"]
    done = demo_gateway.manage("code", "--", *arguments, environment=path)
    assert done.stdout.strip() == "65536|--model small/one --permission-mode plan"


def test_code_reports_what_is_missing(demo_gateway, tmp_path):
    done = demo_gateway.manage("code", environment={"PATH": str(tmp_path)})
    assert done.returncode == 127
    assert "claude is not installed" in done.stderr
    program = tmp_path / "claude"
    program.touch(mode=0o755)
    done = demo_gateway.manage("code", environment={"PATH": str(tmp_path), "ATHENA_PORT": "1"})
    assert "Start it with `make run`" in done.stderr
