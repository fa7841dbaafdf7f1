"""`manage.py config`: export, import and check."""

import io
import sys

import pytest
from django.utils import timezone

from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from tests.support.commands import run_command
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    monkeypatch.delenv("HOUSE_API_KEY", raising=False)
    configure()


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "athena.yaml"
    assert run_command("config", "export", "--output", path) == ("", "", "")
    return path


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_export_writes_to_the_terminal_or_a_file(document):
    assert run_command("config", "export") == (document.read_text(), "", "")
    _, _, failed = run_command("config", "export", "--output", document / "nowhere")
    assert "cannot be written" in failed


def test_importing_an_export_changes_nothing(document):
    assert run_command("config", "import", document) == ("Nothing was changed.\n", "", "")
    assert run_command("config", "check", document) == ("Nothing would change.\n", "", "")


def test_import_prints_the_difference_and_a_dry_run_changes_nothing(document):
    edit(document, "deepseek/deepseek-v3.2", "moonshotai/kimi-k2.5")
    edit(document, "overrides: []", "overrides: [{pattern: house/*, format: kimi}]")
    expected = (
        "~ routes claude-*opus*\n"
        "    upstream_model: deepseek/deepseek-v3.2 → moonshotai/kimi-k2.5\n"
        "+ overrides house/*\n"
        "    format: kimi\n"
        "Models whose route or format {}:\n"
        "    claude-opus: demo: deepseek/deepseek-v3.2 as deepseek → "
        "demo: moonshotai/kimi-k2.5 as kimi\n"
    )
    for arguments in (("import", document, "--dry-run"), ("check", document)):
        printed, _, failed = run_command("config", *arguments)
        assert (
            printed
            == expected.format("would change") + "2 rows would change. Nothing was changed.\n"
        )
        assert not failed
    assert not FormatOverride.objects.exists()
    printed, _, failed = run_command("config", "import", document)
    assert printed.startswith(
        expected.format("changed") + "2 rows changed. The configuration is now version "
    )
    record = FormatOverride.history.get()
    assert (record.history_change_reason, record.history_user) == ("config import", None)


def test_import_reads_standard_input(monkeypatch):
    monkeypatch.setattr(
        sys,
        "stdin",
        io.TextIOWrapper(io.BytesIO(b"athena: 1\noverrides: [{pattern: x, format: kimi}]")),
    )
    assert not run_command("config", "import", "-")[2]
    assert FormatOverride.objects.get().pattern == "x"


def test_import_errors_have_line_numbers_and_change_nothing(document):
    edit(document, "upstream_model: qwen/qwen3-coder", "upstream_modell: \x1b[31m")
    edit(document, "\x1b", '"\\e"')  # as an escape in YAML
    edit(document, '"\\e"[31m', '"\\e[31m"')
    edit(document, "default_route: default", "default_route: gone")
    before = run_command("config", "export")
    for arguments in (("import", document), ("import", document, "--dry-run"), ("check", document)):
        printed, complaints, failed = run_command("config", *arguments)
        assert printed == ""
        assert complaints == (
            "line 7, column 3: gateway.default_route: the route 'gone' does not exist\n"
            "line 17, column 3: routes[0].upstream_modell: this field does not exist\n"
        )
        assert failed == "Import rejected. Nothing was changed."
    assert run_command("config", "export") == before


def test_an_unreadable_file_is_named(tmp_path):
    assert "cannot be read" in run_command("config", "import", tmp_path / "nowhere")[2]
    assert "cannot be read" in run_command("config", "check", tmp_path)[2]
    (tmp_path / "latin").write_bytes(b"athena: 1 # \xff")
    assert "is not UTF-8" in run_command("config", "import", tmp_path / "latin")[2]


def test_exit_status_reports_failure(gateway, tmp_path):
    """Run the command as a process, beside a running gateway."""
    path = tmp_path / "athena.yaml"
    path.write_text("athena: 2")
    done = gateway.manage("config", "check", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "line 1, column 1: athena: this gateway reads only version 1 of the document's format\n"
        "CommandError: Import rejected. Nothing was changed.\n"
    )
    document = gateway.manage("config", "export").stdout
    assert "sk-or-canary" not in document
    done = gateway.manage("config", "import", "-", input=document)
    assert (done.returncode, done.stdout) == (0, "Nothing was changed.\n"), done.stderr


def test_check_accepts_a_valid_configuration():
    FormatSettings.objects.create(format="gone")  # left over from an older release
    assert run_command("config", "check") == ("No errors found.\n", "", "")


def test_check_lists_errors_and_hints_of_the_current_configuration():
    house = Upstream.objects.create(
        name="house", base_url="https://house.example", key_variable="HOUSE_API_KEY"
    )
    ModelRoute.objects.create(pattern="home", upstream=house)
    off = Upstream.objects.create(name="off", base_url="https://off.example", active=False)
    sealed = Upstream.objects.create(
        name="sealed", base_url="https://sealed.example", sealed_key="of another secret"
    )
    idle = ModelRoute.objects.create(pattern="idle", upstream=off)
    ModelRoute.objects.create(pattern="other", upstream=sealed, fallback=idle)
    FormatOverride.objects.create(pattern="unused/*", format="kimi")
    FormatOverride.objects.create(pattern="qwen/*", format="qwen")
    FormatOverride.objects.create(pattern="past", format="klingon")
    GatewaySettings.objects.update(default_route=idle)
    ClientKey.objects.update(revoked_at=timezone.now())
    printed, _, failed = run_command("config", "check")
    assert printed.splitlines() == [
        "ERROR  The format override past → klingon is invalid: format: The format 'klingon' does "
        "not exist.",
        "ERROR  The upstream house cannot be called: the environment variable HOUSE_API_KEY is not "
        "set.",
        "ERROR  The upstream sealed cannot be called: its stored key cannot be decrypted with the "
        "current ATHENA_SECRET_KEY; enter it again.",
        "ERROR  The route idle is not used: its upstream off is not active.",
        "ERROR  The route other falls back to idle, which is not active.",
        "ERROR  The default route idle is not used: it or its upstream is not active.",
        "hint   No known model matches the override unused/* → kimi.",
        "hint   No client key is valid: every request is rejected.",
    ]
    assert failed == "The configuration has errors; they are listed above."
    GatewaySettings.objects.update(default_route=None)
    assert "There is no default route" in run_command("config", "check")[0]
    GatewaySettings.objects.all().delete()
    assert "There is no configuration yet" in run_command("config", "check")[0]


def test_a_hint_alone_is_not_a_failure():
    FormatOverride.objects.create(pattern="unused/*", format="kimi")
    printed, _, failed = run_command("config", "check")
    assert printed.splitlines()[-1] == "No errors found."
    assert not failed
