"""Invariants of ARCHITECTURE.md that can be checked automatically."""

import ast
import re
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db.models import FloatField, IntegerField
from prometheus_client.metrics import MetricWrapperBase

import formats
from formats import DIALECTS, FORMATS, NoticeCode
from proxy.models import GatewaySettings, Upstream
from proxy.telemetry.metrics import REGISTRY

ROOT = Path(__file__).parent.parent
SOURCES = sorted(ROOT.glob("formats/**/*.py"))
PROXY = sorted(p for p in ROOT.glob("proxy/**/*.py") if "migrations" not in p.parts)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_formats_imports_only_the_standard_library_and_msgspec(path):
    """The contracts of import-linter can only name packages that are forbidden."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                top = module.partition(".")[0]
                assert top in {"formats", "msgspec"} | sys.stdlib_module_names, module


@pytest.mark.parametrize("path", [*SOURCES, *PROXY], ids=str)
def test_every_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "no docstring"


def test_the_public_names_are_listed_in_order():
    names = {name for name in vars(formats) if not name.startswith("_")}
    modules = {path.stem for path in (ROOT / "formats").iterdir()}
    assert set(formats.__all__) == names - modules
    constants = [name for name in formats.__all__ if name.isupper()]
    classes = [name for name in formats.__all__ if name[0].isupper() and not name.isupper()]
    functions = [name for name in formats.__all__ if name[0].islower()]
    assert formats.__all__ == sorted(constants) + sorted(classes) + sorted(functions)


def test_every_notice_dialect_and_format_is_documented():
    notices = (ROOT / "docs" / "notices.md").read_text()
    assert re.findall(r"^\| `(\w+)`", notices, re.MULTILINE) == sorted(NoticeCode)
    readme = (ROOT / "README.md").read_text()
    for name in [*DIALECTS, *FORMATS]:
        assert name.lower() in readme.lower()
    formats_page = (ROOT / "docs" / "formats.md").read_text()
    assert set(FORMATS) <= set(re.findall(r"^## (\w+)$", formats_page, re.MULTILINE))


def test_every_metric_is_documented_with_its_type_and_labels():
    metrics = (ROOT / "docs" / "metrics.md").read_text()
    documented = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in re.findall(
            r"^\| `(athena_\w+)` \| (\w+) \|([^|]*)\|", metrics, re.MULTILINE
        )
    }
    registered = {}
    for collector in REGISTRY._collector_to_names:
        assert isinstance(collector, MetricWrapperBase)
        name = collector._name + ("_total" if collector._type == "counter" else "")
        registered[name] = (collector._type, collector._labelnames)
    assert documented == registered
    rows = set(re.findall(r"^\| `(\w+)` \| [^|]*\|$", metrics, re.MULTILINE))
    assert rows >= {label for _, labels in registered.values() for label in labels}


def test_every_setting_is_documented():
    source = "".join(
        (ROOT / path).read_text()
        for path in ("athena_site/settings.py", "proxy/configuration/bootstrap.py")
    )
    page = (ROOT / "docs" / "settings.md").read_text()
    for name in set(re.findall(r"\"((?:ATHENA|OPENROUTER|DATABASE)_[A-Z_]+)\"", source)):
        assert name in page, name
        assert name in settings.VARIABLES or not name.startswith("ATHENA_"), name


def test_every_limit_is_documented():
    limits = (ROOT / "docs" / "limits.md").read_text()
    rows = [line for line in limits.splitlines() if line.startswith("| ")]
    shares = {"sample_calls", "sample_others"}
    for model in (GatewaySettings, Upstream):
        numbers = [f for f in model._meta.fields if isinstance(f, FloatField | IntegerField)]
        for field in numbers:
            if not field.primary_key and field.name not in shares:
                assert any(f"`{field.name}`" in row for row in rows), field.name


def test_the_hot_path_does_not_touch_the_database():
    paths = [
        *ROOT.glob("proxy/http/*.py"),
        *ROOT.glob("proxy/serving/*.py"),
        *ROOT.glob("proxy/upstreams/*.py"),
        ROOT / "proxy/configuration/routing.py",
        ROOT / "proxy/audit/capture.py",
        ROOT / "proxy/audit/exchange.py",
    ]
    for path in paths:
        source = path.read_text()
        assert ".objects" not in source, path
        assert "django.db" not in source, path


def test_documents_do_not_mention_files_outside_the_project():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert "../shared" not in path.read_text()


def test_no_test_imports_from_another_test_file():
    for path in ROOT.glob("tests/**/*.py"):
        found = re.search(r"^\s*(?:from|import) tests\..*\btest_\w+ import", path.read_text(), re.M)
        assert found is None, f"{path}: move what tests share to tests/support"


def test_pre_commit_runs_the_steps_of_make_check():
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.partition("\ncheck:")[2].partition("\n\n")[0].splitlines()[1:]
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"^ *entry: (.+)$", hooks, re.MULTILINE) == commands
