"""Generates the table of docs/errors.md from `proxy.errors.ERRORS`.

`python -m tests.support.errors_page` rewrites the table and leaves the rest of the page alone.
"""

from pathlib import Path

from proxy.errors import ERRORS, ErrorCode

PAGE = Path(__file__).parent.parent.parent / "docs" / "errors.md"
HEADING = "## Codes\n\n"


def table() -> str:
    lines = [
        "| code | status | source | `x-should-retry` | what happened | what to do |",
        "|---|---|---|---|---|---|",
        *(_row(code) for code in sorted(ERRORS)),
    ]
    return "\n".join(lines) + "\n"


def rewritten(page: str) -> str:
    """Replace everything after the heading of the table."""
    return page.partition(HEADING)[0] + HEADING + table()


def _row(code: ErrorCode) -> str:
    spec = ERRORS[code]
    status = "–" if spec.is_audit_only else spec.status
    meaning = spec.meaning.format(upstream="the upstream", format="the format")
    meaning = meaning[0].upper() + meaning[1:]
    retry = "" if spec.should_retry else "false"
    return f"| `{code}` | {status} | {spec.source} | {retry} | {meaning} | {spec.remedy} |"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
