"""Takes the pictures in `docs/images` again: `python -m tests.browser.pictures`.

Most are screenshots that the browser tests leave; the dashboard is taken with a week of generated
traffic. Needs Chromium, and pngquant to keep the files small.
"""

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, sync_playwright

from tests.browser.conftest import chromium
from tests.support.gateway import Gateway

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PASSWORD = "the password of the pictures"
PICTURES = {  # name: screenshot of the browser tests, width, maximum height
    "audit": ("audit-1360-light", 1360, 800),
    "exchange": ("replay", 1360, 1405),
    "format": ("format-tried", 1360, 1060),
    "history": ("operator-history", 1360, 900),
    "key": ("operator-key", 1360, 1460),
    "phone": ("broken-390-dark", 390, 1480),
    "playground": ("played-1360-light", 1360, 1060),
    "route": ("operator-route", 1360, 1100),
    "rules": ("operator-rules", 1360, 1100),
    "test": ("operator-test", 1360, 720),
    "upstream": ("operator-upstream", 1360, 1200),
}
SEED = """
from django.utils import timezone
from bench.exchanges import add_up, seed
from proxy.models import GatewaySettings
GatewaySettings.objects.all().delete()
seed(40_000, timezone.now())
add_up()
"""


def main() -> None:
    path = chromium()
    if path is None or shutil.which("pngquant") is None:
        sys.exit("Chromium or pngquant is missing. Run: apt install chromium pngquant")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        screenshots = Path(os.environ.get("BROWSER_SCREENSHOTS") or directory)
        if not any(screenshots.glob("*.png")):
            environment = {**os.environ, "BROWSER_SCREENSHOTS": str(screenshots)}
            command = [sys.executable, "-m", "pytest", "tests/browser"]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, (screenshot, width, height) in PICTURES.items():
            crop(browser, screenshots / f"{screenshot}.png", name, width, height)
        take_dashboard(browser, Path(directory))
        browser.close()


def crop(browser: Browser, source: Path, name: str, width: int, height: int) -> None:
    data = base64.b64encode(source.read_bytes()).decode()
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_content(f'<body style="margin: 0"><img src="data:image/png;base64,{data}">')
    clip = FloatRect(x=0, y=0, width=width, height=min(height, png_height(source)))
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=clip)
    page.close()
    shrink(name)


def png_height(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[20:24])


def take_dashboard(browser: Browser, directory: Path) -> None:
    gateway = Gateway(directory / "gateway", ATHENA_ADMIN_PASSWORD=PASSWORD)
    gateway.data_dir.mkdir()
    gateway.start().stop()  # creates the tables and the admin
    done = gateway.manage("shell", "--no-imports", "-c", SEED)
    assert done.returncode == 0, done.stderr
    gateway.start()
    try:
        page = browser.new_page(viewport={"width": 1360, "height": 1210})
        page.goto(f"{gateway.url}/admin/login/?next=/admin/%3Frange=7d")
        page.fill("#id_username", "admin")
        page.fill("#id_password", PASSWORD)
        page.click("input[type=submit]")
        page.wait_for_selector(".tiles")
        page.screenshot(path=IMAGES / "dashboard.png")
        page.close()
    finally:
        gateway.stop()
    shrink("dashboard")


def shrink(name: str) -> None:
    path = str(IMAGES / f"{name}.png")
    subprocess.run(["pngquant", "--force", "--output", path, "--strip", "64", path], check=True)


if __name__ == "__main__":
    main()
