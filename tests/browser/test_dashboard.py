"""Dashboard in a browser, wide and narrow: its numbers, and their links to the exchanges."""

import pytest

from tests.browser.traffic import (
    BROKEN_MODEL,
    BROKEN_TOOL_CALL,
    HOSTILE_TEXT,
    LEAKING_MODEL,
    TOOL_CALL,
    question,
    wait_for_exchanges,
)
from tests.support.chat import reply
from tests.support.wire import stream

KIMI = "moonshotai/kimi-k2"
HOSTILE_NAME = HOSTILE_TEXT[:150]


@pytest.fixture(scope="module", autouse=True)
def _traffic(gateway, upstream):
    upstream.script(KIMI, reply(stream({"content": TOOL_CALL})))
    upstream.script(LEAKING_MODEL, reply(stream({"content": TOOL_CALL})))
    upstream.script(BROKEN_MODEL, reply(stream({"content": BROKEN_TOOL_CALL})))
    upstream.script(HOSTILE_NAME, reply(stream({"content": "Hello."})))
    with gateway.client() as client:
        for model in (KIMI, KIMI, KIMI, LEAKING_MODEL, BROKEN_MODEL, HOSTILE_NAME):
            client.post("/v1/messages", json=question(model))
    wait_for_exchanges(gateway, 6)


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_dashboard_is_the_first_page_and_its_numbers_are_links(people, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with people("olga", **look) as olga:
        page = olga.page

        def tile(label):
            return page.locator(f".tile:has(dt:text-is('{label}'))")

        assert tile("Requests").locator(".big").inner_text() == "6"
        assert tile("Failure rate").locator(".big").inner_text() == "16.7 %"
        assert tile("Rescued calls").locator(".big").inner_text() == "3"
        assert tile("Leak rate").locator(".big").inner_text() == "16.7 %"
        assert "live in 1 of 1 process" in tile("Configuration").inner_text()
        assert page.locator(".chart .place").count() == 48
        page.click(".chart-data summary")
        assert page.locator(".chart-data tbody tr").count() == 24
        olga.check()
        olga.picture(f"dashboard-{width}-{scheme}")
        page.click(".chart-data summary")
        for name in ("7 days", "30 days", "90 days", "24 hours"):
            page.click(f".tabs a:text-is('{name}')")
            assert page.inner_text(".tabs [aria-current]") == name
            assert tile("Requests").locator(".big").inner_text() == "6"
            olga.check()
        page.click(f".sums tr:has-text('{KIMI}') td[data-label='rescued calls'] a")
        assert page.locator(".exchanges tbody tr").count() == 3
        page.go_back()
        tile("Failure rate").locator(".big a").click()
        assert page.locator(".exchanges tbody tr").count() == 1
        page.go_back()
        page.locator(".chart a").nth(23).click()  # the current hour, or the previous one
        page.wait_for_url("**/admin/audit/?since=*")
        page.go_back()
        tile("Open streams").locator(".big a").click()
        assert page.locator("#processes tbody tr").count() == 1
        olga.check()
