"""A gateway, a scripted upstream, people with roles, and Chromium.

Playwright drives the Chromium of the system: nothing is downloaded. Without one these tests are
skipped, or fail where `BROWSER_REQUIRED` is set, as `make browser` does.
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
        assert not os.environ.get("BROWSER_REQUIRED"), "there is no Chromium: apt install chromium"
        pytest.skip("NO CHROMIUM: the pages are not tested in a browser, see `make browser`")
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
    made = gateway.manage(
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
    assert made.returncode == 0, made.stderr
    yield gateway
    gateway.stop()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the pages are put, for people to look at."""
    given = os.environ.get("BROWSER_SCREENSHOTS")
    path = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path


class Person:
    """Somebody at a browser, and everything that their browser complained about."""

    def __init__(self, context: BrowserContext, gateway: Gateway, screenshots: Path) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self._url = gateway.url
        self._screenshots = screenshots
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {message.text}")

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
        """No complaint, no script of a model's, nothing wider than the window."""
        assert self.complaints == []
        assert self.page.evaluate("window.__xss") is None
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{self.page.url} is {wide} pixels too wide"


@pytest.fixture
def people(browser: Browser, gateway: Gateway, screenshots: Path):
    """Opens a browser for somebody, logged in."""

    @contextmanager
    def open_for(name: str, **options: Any) -> Iterator[Person]:
        look: dict[str, Any] = {"viewport": {"width": 1360, "height": 900}, **options}
        context = browser.new_context(**look)
        context.set_default_timeout(15_000)
        person = Person(context, gateway, screenshots)
        person.login(name)
        yield person
        person.check()
        context.close()

    return open_for
