"""The operators' lists and the connection test, as they look in a window of 1360 pixels."""

import pytest

from tests.support.chat import reply
from tests.support.scripted_upstream import whole
from tests.support.wire import stream

LONG = "an-upstream-with-a-name-as-long-as-people-give-them"
HEALTHY = '<tool_call>{"name": "report_health", "arguments": {"state": "good"}}</tool_call>'


@pytest.fixture(scope="module")
def long_names(gateway):
    gateway.edit(
        f"upstream = Upstream.objects.create(name={LONG!r}, base_url='https://' + 'a' * 60 + '.example/v1')\n"
        "spare = ModelRoute.objects.create(pattern='vendor/spare-' + 'x' * 60, upstream=upstream)\n"
        "ModelRoute.objects.create(pattern='claude-*-' + 'y' * 80 + '*', upstream=upstream,"
        " upstream_model='moonshotai/' + 'z' * 80, fallback=spare)"
    )


@pytest.mark.parametrize("width", [1360, 390])
@pytest.mark.parametrize("table", ["modelroute", "upstream", "clientkey"])
def test_no_column_of_a_list_is_cut(people, long_names, table, width):
    """N10"""
    with people("olga", viewport={"width": width, "height": 900}) as olga:
        olga.visit(f"/admin/proxy/{table}/")
        olga.picture(f"list-{table}-{width}")
        cut = olga.page.evaluate(
            "(() => { const room = document.querySelector('#changelist').getBoundingClientRect();"
            " return [...document.querySelectorAll('#result_list, #result_list :is(th, td)')]"
            ".map((e) => e.getBoundingClientRect().right - room.right) })()"
        )
        assert max(cut) <= 1, cut


def test_a_double_click_on_the_connection_test_keeps_the_result(people, gateway, upstream):
    """N10"""
    upstream.script("/v1/models", whole({"data": [{"id": "qwen/probe"}]}))
    upstream.script("qwen/probe", reply(stream({"content": HEALTHY})))
    with people("olga") as olga:
        gateway.edit(f"Upstream.objects.create(name='tested', base_url={upstream.url!r})")
        olga.visit("/admin/proxy/upstream/")
        olga.page.click("#result_list th a:text-is('tested')")
        olga.page.click("a:has-text('Test connection')")
        olga.page.dblclick("button:has-text('Test connection')")
        olga.page.wait_for_selector("text=All steps passed.")
        assert "Wait" not in olga.page.inner_text("body")
        olga.page.click("button:has-text('Test connection')")
        olga.page.wait_for_selector("text=All steps passed.")
