"""Runs management commands inside the test process."""

from io import StringIO

from django.core.management import CommandError, call_command


def run_command(*arguments: object) -> tuple[str, str, str]:
    """Return the command's stdout, its stderr and its error message."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*map(str, arguments), stdout=out, stderr=err)
    except CommandError as error:
        return out.getvalue(), err.getvalue(), str(error)
    return out.getvalue(), err.getvalue(), ""
