"""Fixtures of the browser tests: a gateway, a scripted upstream, staff users and Chromium.

Playwright drives the system's Chromium; nothing is downloaded. Without Chromium the tests are skipped,
or fail if `BROWSER_REQUIRED` is set, as in `make browser`. `BROWSER_SCREENSHOTS=DIR` keeps pictures.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from proxy.roles import DEVELOPERS, OPERATORS, SUPPORT
from tests.support.gateway import Gateway
from tests.support.scripted_upstream import ScriptedUpstream

PASSWORD = "a staff member's password"
PEOPLE = {"sam": SUPPORT, "olga": OPERATORS, "dev": DEVELOPERS}


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        assert not os.environ.get("BROWSER_REQUIRED"), (
            "Chromium is missing. Run: apt install chromium"
        )
        pytest.skip(
            "Chromium is missing, so the pages are not tested in a browser. See `make browser`."
        )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def upstream() -> ScriptedUpstream:
    return ScriptedUpstream()


@pytest.fixture(scope="module")
def gateway(
    upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    gateway = Gateway(
        tmp_path_factory.mktemp("gateway"),
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
    ).start()
    done = gateway.manage(
        "shell",
        "--no-imports",
        "-c",
        "from django.contrib.auth.models import Group, User\n"
        "from proxy.models import ClientKey\n"
        f"for name, role in {PEOPLE!r}.items():\n"
        f"    user = User.objects.create_user(name, password={PASSWORD!r}, is_staff=True)\n"
        "    user.groups.add(Group.objects.get(name=role))\n"
        "ClientKey.objects.update(owner=User.objects.get(username='dev'))",
    )
    assert done.returncode == 0, done.stderr
    yield gateway
    gateway.stop()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory for pictures of the pages."""
    directory = os.environ.get("BROWSER_SCREENSHOTS")
    path = Path(directory) if directory else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path


class Person:
    """A staff user with a browser; collects the browser's errors and warnings."""

    def __init__(self, context: BrowserContext, gateway: Gateway, screenshots: Path) -> None:
        self.page: Page = context.new_page()
        self.browser_errors: list[str] = []
        self._url = gateway.url
        self._screenshots = screenshots
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.browser_errors.append(str(error)))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.browser_errors.append(f"{self.page.url}: {message.text}")

    def visit(self, path: str) -> None:
        response = self.page.goto(self._url + path)
        assert response is not None
        assert response.status == 200, (path, response.status)

    def login(self, name: str) -> None:
        self.visit("/admin/login/")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", PASSWORD)
        self.page.click("input[type=submit]")
        self.page.wait_for_url(re.compile("/admin/$"))

    def picture(self, name: str) -> None:
        self.page.screenshot(path=self._screenshots / f"{name}.png", full_page=True)

    def check(self) -> None:
        """Check that the page caused no browser error, ran no payload and fits the window."""
        assert self.browser_errors == []
        assert self.page.evaluate("window.__xss") is None
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{self.page.url} is {wide} pixels too wide"


@pytest.fixture
def people(browser: Browser, gateway: Gateway, screenshots: Path):
    """Return a context manager that opens a browser with a user logged in."""

    @contextmanager
    def open_for(name: str, **options: Any) -> Iterator[Person]:
        look: dict[str, Any] = {"viewport": {"width": 1360, "height": 900}, **options}
        context = browser.new_context(**look)
        context.set_default_timeout(60_000)
        person = Person(context, gateway, screenshots)
        person.login(name)
        yield person
        person.check()
        context.close()

    return open_for
