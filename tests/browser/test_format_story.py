"""A model leaks markup that no format knows; an operator defines its format, without code.

Support sees the leaks, an operator copies the nearest format, changes two markers, tries it on the
stored answers and saves it. The same request then succeeds, without a restart.
"""

import pytest

from tests.browser.traffic import question, wait_for_exchanges
from tests.support.chat import TOOLS, read, reply
from tests.support.muse import MODEL, answer
from tests.support.waiting import wait_for

ADD = "/admin/proxy/formatdefinition/add/"
LEAKS = f"/admin/audit/?leaked=unknown&model={MODEL}"


@pytest.fixture(scope="module", autouse=True)
def _leaks(gateway, upstream):
    # An operator who tries a format on stored answers may read their content.
    gateway.edit(
        "from django.contrib.auth.models import Group, User\n"
        "User.objects.get(username='olga').groups.add(Group.objects.get(name='support'))"
    )
    upstream.script(MODEL, reply(answer()))
    with gateway.client() as client:
        for _ in range(3):
            ask_muse(client)
    wait_for_exchanges(gateway, 3)


def ask_muse(client):
    body = {**question(MODEL), "tools": TOOLS}
    return read(client.post("/v1/messages", json=body))


def test_an_operator_defines_the_format_of_a_model_that_leaks(gateway, people):
    with gateway.client() as client:
        before = ask_muse(client)
    assert "<|do|>" in before.text
    assert before.calls == []

    with people("sam") as sam:
        sam.visit("/admin/audit/")
        sam.page.click("text=Leaked markup")
        assert "unknown markup leaked" in sam.page.inner_text(".exchanges")
        assert "an operator can define one" in sam.page.inner_text("#content")
        sam.picture("leaks-of-an-unknown-format")
        sam.page.click("nav >> text=Formats")
        assert sam.page.locator("text=Copy").count() == 0
        sam.check()

    with people("olga") as olga:
        page = olga.page
        olga.visit(LEAKS)
        page.click("text=Define a format from these answers")
        page.click(".presets .chip:text-is('nemotron')")
        olga.picture("format-copied")
        page.click("button:text-is('Remove grammar 2')")
        page.fill("#id_name", "muse")
        page.fill("#id_grammars-0-markers-BLOCK", "<|does|>")
        page.fill("#id_grammars-0-markers-BLOCK_END", "<|done|>")
        page.click("button:text-is('Try')")
        assert f"answers of {MODEL}, 0 become calls" in page.inner_text("#result")
        assert "No call was read." in page.inner_text("#result")
        page.fill("#id_grammars-0-markers-BLOCK", "<|do|>")
        page.fill("#id_detect-patterns", MODEL)
        page.click("button:text-is('Try')")
        shown = page.inner_text("#result")
        assert f"answers of {MODEL}, " in shown
        assert "0 become calls" not in shown
        olga.check()
        olga.picture("format-tried")
        page.click("input[name=_save]:visible")
        assert "was added successfully" in page.inner_text(".messagelist")
        olga.check()
        olga.picture("formats")

    with gateway.client() as client:
        after = wait_for(lambda: after if (after := ask_muse(client)).calls else None)
    assert after.text == "Let me look.\n"
    assert [call["name"] for call in after.calls] == ["get_tide"]

    with people("olga") as olga:
        olga.visit(f"/admin/rules/?model={MODEL}")
        assert "a detection pattern of the format muse" in olga.page.inner_text("#content")


def test_the_form_works_without_javascript(people):
    with people("olga", java_script_enabled=False) as olga:
        page = olga.page
        olga.visit(f"{ADD}?kind=pairs")
        page.fill("#id_name", "pairs")
        page.click("button:text-is('Add grammar')")
        assert page.input_value("#id_name") == "pairs"
        page.click("button:text-is('Edit as JSON')")
        assert '"kind": "pairs"' in page.input_value("#id_document")
        page.click("button:text-is('Edit as fields')")
        assert page.locator("[name='grammars-1-kind']").count() == 1
        page.click("button:text-is('Try')")
        assert "correct the marked fields above first" in page.inner_text("#content")


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_the_pages_fit_the_window(people, width, scheme):
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with people("olga", **look) as olga:
        for name, path in (
            ("format-list", "/admin/proxy/formatdefinition/"),
            ("format-built-in", "/admin/formats/deepseek/"),
            ("format-add", f"{ADD}?copy=kimi"),
        ):
            olga.visit(path)
            olga.check()
            olga.picture(f"{name}-{width}-{scheme}")
        olga.page.click("button:text-is('Try')")
        olga.check()
        olga.picture(f"format-add-tried-{width}-{scheme}")
