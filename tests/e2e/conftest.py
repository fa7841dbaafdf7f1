"""Fixtures: one upstream and one gateway for all tests, a new home per test; reports on failure."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.claude import Claude
from tests.e2e.install import maybe_binary
from tests.e2e.opencode import OpenCode
from tests.e2e.opencode import maybe_binary as maybe_opencode
from tests.e2e.upstream import ScriptedUpstream
from tests.support.gateway import Gateway
from tests.support.scripted_upstream import ScriptedUpstream as RawUpstream

_MAX_LOG_CHARS = 6000


@pytest.fixture(scope="session")
def binary() -> Path:
    return maybe_binary() or pytest.skip("Claude Code is not installed: run `make e2e`")


@pytest.fixture(scope="session")
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream("sk-or-the-upstreams-key") as upstream:
        yield upstream


@pytest.fixture(scope="session")
def gateway(
    upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    gateway = Gateway(
        tmp_path_factory.mktemp("gateway"),
        OPENROUTER_API_KEY=upstream.key,
        OPENROUTER_BASE_URL=upstream.url,
        # Overrides the variable of a developer's own .env file, which is read too.
        ATHENA_ANTHROPIC_API_KEY="",
    ).start()
    yield gateway
    gateway.stop()


@pytest.fixture
def claude(binary: Path, gateway: Gateway, tmp_path: Path) -> Claude:
    assert gateway.process is not None
    assert gateway.process.poll() is None, "the gateway has stopped"
    return Claude(binary, gateway.url, tmp_path)


@pytest.fixture(scope="session")
def demo_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway without any API key, as after the first `make run`."""
    gateway = Gateway(tmp_path_factory.mktemp("demo"), ATHENA_ANTHROPIC_API_KEY="").start()
    yield gateway
    gateway.stop()


@pytest.fixture
def demo_claude(binary: Path, demo_gateway: Gateway, tmp_path: Path) -> Claude:
    return Claude(binary, demo_gateway.url, tmp_path)


@pytest.fixture(scope="session")
def scripted() -> RawUpstream:
    """An upstream that sends exactly the bytes of a test's script."""
    return RawUpstream()


@pytest.fixture(scope="session")
def scripted_gateway(
    scripted: RawUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    gateway = Gateway(
        tmp_path_factory.mktemp("scripted"),
        OPENROUTER_API_KEY="x" * 20,
        OPENROUTER_BASE_URL=scripted.url,
        ATHENA_ANTHROPIC_API_KEY="",
    ).start()
    yield gateway
    gateway.stop()


@pytest.fixture
def opencode(scripted_gateway: Gateway, tmp_path: Path) -> OpenCode:
    binary = maybe_opencode()
    if binary is None:
        pytest.skip("opencode is not installed: run `make e2e`")
    return OpenCode(binary, scripted_gateway.url, tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the output of the client, upstream and gateway to a failed test's report."""
    report = yield
    if report.failed:
        for side in item.funcargs.values():
            match side:
                case Claude() | OpenCode() | ScriptedUpstream():
                    report.sections.append((type(side).__name__, side.evidence()))
                case Gateway():
                    report.sections.append(("Gateway", side.log[-_MAX_LOG_CHARS:]))
    return report
