"""Runs the README's own lines for Claude Code against the demo model."""

import re

import pytest

from tests.e2e.claude import Claude
from tests.support.gateway import KEY, ROOT, Gateway

pytestmark = pytest.mark.e2e


def readme_lines() -> str:
    """Return the shell lines under the README's heading for Claude Code."""
    section = (ROOT / "README.md").read_text().partition("### Claude Code")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def test_the_lines_of_the_readme_run_a_tool_with_the_demo_model(
    demo_claude: Claude, demo_gateway: Gateway
) -> None:
    """C10: Claude Code asks for Opus, and ends its messages with a system message."""
    lines = readme_lines().replace("http://127.0.0.1:8000", demo_gateway.url)
    assert demo_gateway.url in lines
    (demo_claude.work / "var").mkdir()
    (demo_claude.work / "var" / "client_key").write_text(KEY)

    result = demo_claude.run_lines(lines, "Use bash to run `echo tide | tee tide.txt`")

    assert (demo_claude.work / "tide.txt").read_text() == "tide\n"
    assert result["result"] == "The tool answered: tide"
