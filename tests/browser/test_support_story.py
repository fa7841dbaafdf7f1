"""Support staff find a failed translation and replay it; an operator makes the fix permanent."""

import re

import pytest

from tests.browser.traffic import (
    BROKEN_MODEL,
    BROKEN_TOOL_CALL,
    HOSTILE_TEXT,
    LEAKING_MODEL,
    TOOL_CALL,
    TOOL_CALL_PIECES,
    UNKNOWN_MODEL,
    question,
    wait_for_exchanges,
)
from tests.support.chat import read, reply
from tests.support.gateway import KEY
from tests.support.waiting import wait_for
from tests.support.wire import chunk, stream

HOSTILE_MODEL = "acme/hostile"


@pytest.fixture(scope="module", autouse=True)
def _traffic(gateway, upstream):
    upstream.script(
        LEAKING_MODEL, reply(*(chunk({"content": piece}) for piece in TOOL_CALL_PIECES), stream())
    )
    upstream.script(BROKEN_MODEL, reply(stream({"content": BROKEN_TOOL_CALL})))
    upstream.script(HOSTILE_MODEL, reply(stream({"content": HOSTILE_TEXT * 1500})))
    with gateway.client() as client:
        for model in (LEAKING_MODEL, BROKEN_MODEL, BROKEN_MODEL, HOSTILE_MODEL):
            client.post("/v1/messages", json=question(model))
    wait_for_exchanges(gateway, 4)


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_an_operator_makes_the_family_that_auto_read_an_override(
    gateway, upstream, people, width, scheme
):
    model, look = f"{UNKNOWN_MODEL}-{width}", f"{width}-{scheme}"
    upstream.script(model, reply(stream({"content": TOOL_CALL})))
    with gateway.client() as client:
        answer = read(client.post("/v1/messages", json=question(model)))
    assert [call["name"] for call in answer.calls] == ["get_tide"]
    wait_for(lambda: gateway.rows("SELECT id FROM proxy_exchange WHERE model = ?", model))

    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with people("sam", **options) as sam:
        sam.visit("/admin/audit/")
        sam.page.click("text=Read by auto")
        sam.check()
        sam.picture(f"audit-auto-{look}")
        sam.page.click(f"tr:has-text('{model}') td.main a >> nth=0")
        assert "read as kimi by auto" in sam.page.inner_text(".summary .why")
        assert sam.page.locator("button:has-text('from now on')").count() == 0
        sam.picture(f"exchange-auto-{look}")
        handed_over = sam.page.url.removeprefix(gateway.url)

    with people("olga", **options) as olga:
        olga.visit(handed_over)
        olga.check()
        olga.picture(f"offer-auto-{look}")
        olga.page.click(f"button:has-text('Read {model} as kimi from now on')")
        assert f"Override saved: {model} is now read as kimi" in olga.page.inner_text(
            ".messagelist"
        )
        assert f"{model} is now read as kimi." in olga.page.inner_text(".summary")
        olga.picture(f"override-auto-{look}")


def answer_with_calls(client, model):
    answer = read(client.post("/v1/messages", json=question(model)))
    return answer if answer.calls else None


def test_support_replays_a_failure_and_an_operator_makes_the_fix_permanent(gateway, people):
    with gateway.client() as client:
        before = read(client.post("/v1/messages", json=question(LEAKING_MODEL)))
    assert "<|tool_calls_section_begin|>" in before.text  # no override names the format
    assert before.calls == []

    with people("sam") as sam:
        page = sam.page
        page.click(".card:has-text('Audit')")
        page.click("text=Leaked markup")
        sam.picture("audit-leaked")
        page.click(f"tr:has-text('{LEAKING_MODEL}') td.main a >> nth=0")
        why = page.inner_text(".summary .why")
        assert "The client got tool calls as plain text: the model writes kimi" in why
        assert page.inner_text(".s.wrong >> nth=0") == "<|tool_calls_section_begin|>"
        page.hover(".event.text")
        assert page.locator(".s.hovered").count() >= 2  # on both sides
        page.click("button:has-text('Copy request id')")
        page.wait_for_selector(".copied:has-text('Copied')")
        sam.picture("exchange")
        assert page.input_value("#id_format") == "kimi"
        page.click("button:has-text('Replay')")
        assert page.inner_text(".result .chip") == "fixed"
        assert "get_tide" in page.inner_text(".difference")
        assert page.locator("button:has-text('from now on')").count() == 0
        sam.picture("replay")
        handed_over = page.url.removeprefix(gateway.url).partition("?")[0]

    with people("olga") as olga:
        olga.visit(handed_over)
        assert "your role does not allow you to read it" in olga.page.inner_text("#content")
        olga.page.click("button:has-text('from now on')")
        assert f"Override saved: {LEAKING_MODEL} is now read as kimi" in olga.page.inner_text(
            ".messagelist"
        )
        assert f"{LEAKING_MODEL} is now read as kimi" in olga.page.inner_text(".result")
        olga.picture("override")

    with gateway.client() as client:
        after = wait_for(lambda: answer_with_calls(client, LEAKING_MODEL))
    assert after.text == "Let me look up the tide. "
    assert [call["name"] for call in after.calls] == ["get_tide"]


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_pages_fit_the_window_without_browser_errors(gateway, people, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with people("sam", **look) as sam:
        page, suffix = sam.page, f"-{width}-{scheme}"
        sam.picture(f"index{suffix}")
        for name, path in (
            ("api", "/api/docs/"),
            ("audit", "/admin/audit/"),
            ("playground", "/admin/playground/"),
        ):
            sam.visit(path)
            sam.check()
            sam.picture(f"{name}{suffix}")
        page.fill("#id_text", TOOL_CALL)
        page.fill("#id_model", "kimi-k2")
        page.select_option("#id_chunking", "characters")
        page.click("button:has-text('Decode')")
        assert "Read as kimi" in page.inner_text("#result")
        sam.check()
        sam.picture(f"played{suffix}")
        sam.visit("/admin/audit/")
        page.click(".groups .main a")
        page.fill("#id_text", "Seen since the new tokeniser.")
        page.click("button:has-text('Add comment')")
        page.click("button:has-text('Replay the newest')")
        assert "2 replayed: 0 fixed, 2 still failing" in page.inner_text(".messagelist")
        sam.check()
        sam.picture(f"group{suffix}")
        page.click(".exchanges .main a >> nth=0")
        page.wait_for_url("**/exchanges/**")
        first = page.url
        with page.expect_navigation():
            page.keyboard.press("j")
        assert page.url != first
        with page.expect_navigation():
            page.keyboard.press("k")
        assert page.url == first
        assert "stopped in the middle of a tool call" in page.inner_text(".summary")
        assert page.locator(".s.wrong").count() == 1
        sam.check()
        sam.picture(f"broken{suffix}")
        sam.visit(f"/admin/audit/?model={HOSTILE_MODEL}")
        page.click(".exchanges .main a >> nth=0")
        assert page.locator(".s.invisible").count() > 100
        sam.check()
        page.screenshot(path=sam._screenshots / f"hostile{suffix}.png")
    with people("dev", **look) as developer:
        developer.visit("/admin/usage/")
        developer.check()
        developer.picture(f"usage{suffix}")


def test_django_admin_works_under_the_content_security_policy(gateway, people):
    with people("olga") as olga:
        page = olga.page
        tables = ("upstream", "modelroute", "formatoverride", "formatdefinition")
        for name in (*tables, "formatsettings", "clientkey"):
            olga.visit(f"/admin/proxy/{name}/")
            olga.check()
        olga.visit("/admin/proxy/modelroute/add/")
        page.click("text=Toggle theme >> visible=true")
        olga.check()
        olga.picture("configuration")


def test_no_secret_is_on_any_page(gateway, people):
    with people("sam") as sam:
        sam.visit("/admin/audit/?outcome=failed")
        sam.page.click(".exchanges .main a >> nth=0")
        shown = sam.page.content()
    assert not re.search(rf"{KEY}|sk-or-canary", shown)
