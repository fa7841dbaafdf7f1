"""An operator adds a model, gives it an override, reverts a change, and exports and imports."""

import re

import anthropic
import pytest

from tests.browser.traffic import TOOL_CALL, wait_for_exchanges
from tests.support.chat import TOOLS, reply
from tests.support.scripted_upstream import ScriptedUpstream, whole
from tests.support.waiting import wait_for
from tests.support.wire import stream

# Writes Kimi's markup under a name of another family, so that it needs an override.
MODEL = "house/qwen-tide-watcher"
CANARY = "sk-or-v1-canary-of-the-operator"
HEALTHY = '<tool_call>{"name": "report_health", "arguments": {"state": "good"}}</tool_call>'


@pytest.fixture(scope="module")
def new_upstream():
    """An upstream that is not configured yet."""
    upstream = ScriptedUpstream()
    upstream.script("/v1/models", whole({"data": [{"id": "qwen/probe"}, {"id": MODEL}]}))
    upstream.script("qwen/probe", reply(stream({"content": HEALTHY})))
    upstream.script(MODEL, reply(stream({"content": TOOL_CALL})))
    return upstream


def called_tools(gateway, key):
    """Ask with the official SDK and return the names of the tools that the answer calls."""
    with anthropic.Anthropic(base_url=gateway.url, api_key=key, max_retries=0) as sdk:
        message = sdk.messages.create(
            model="tides",
            max_tokens=200,
            tools=TOOLS,
            messages=[{"role": "user", "content": "When is high water?"}],
        )
    return [block.name for block in message.content if block.type == "tool_use"]


def test_operator_adds_upstream_route_key_and_override_and_reverts(gateway, people, new_upstream):
    with people("olga") as olga:
        page = olga.page

        # Add an upstream from the vLLM preset.
        olga.visit("/admin/proxy/upstream/add/")
        page.click("text=vLLM")
        assert page.input_value("#id_name") == "vllm"
        page.fill("#id_base_url", new_upstream.url)
        page.fill("#id_new_key", CANARY)
        olga.picture("operator-upstream")
        page.click("text=Save and continue editing")
        assert "was added successfully" in page.inner_text(".messagelist")
        assert f"…{CANARY[-4:]}" in page.inner_text(".field-key")

        # Test its connection.
        page.click("text=Test connection")
        page.click("button:has-text('Test connection')")
        page.wait_for_selector("text=All steps passed.")
        assert page.locator(".chip.step-ok").count() == 7
        assert "qwen/probe called report_health, read as qwen" in page.inner_text(".steps")
        olga.check()
        olga.picture("operator-test")

        # Add a route to one of its models.
        page.click("text=Choose a model for a route")
        page.fill("#q", "tide")
        page.click("button:has-text('Search')")
        page.click("text=Add route")
        assert page.input_value("#id_upstream_model") == MODEL
        page.wait_for_selector("text=2 models of this upstream are suggested")
        page.fill("#id_pattern", "tides")
        page.wait_for_selector(f".effects tr:has-text('tides'):has-text('vllm: {MODEL} as qwen')")
        olga.check()
        olga.picture("operator-route")
        page.click("input[name=_save]")
        assert "was added successfully" in page.inner_text(".messagelist")

        # Preview that this upstream answers for Claude's names.
        olga.visit("/admin/proxy/upstream/")
        page.click("#result_list a:has-text('vllm')")
        page.click("text=Answer for Claude")
        assert page.input_value("#model") == MODEL
        for width in (1360, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.click("button:has-text('Preview')")
            page.wait_for_selector(f".effects tr:has-text('claude-opus'):has-text('vllm: {MODEL}')")
            olga.check()
            olga.picture(f"operator-claude-names-{width}")
        page.set_viewport_size({"width": 1360, "height": 900})

        # Create a client key, which is shown once.
        olga.visit("/admin/proxy/clientkey/add/")
        page.fill("#id_label", "the harbour's own")
        page.fill("#id_allowed_models", "tides")
        page.click("input[name=_save]")
        key = page.inner_text("#key").strip()
        assert f'Anthropic(base_url="{gateway.url}", api_key="{key}")' in page.inner_text(
            "#anthropic"
        )
        olga.check()
        olga.picture("operator-key")
        wait_for(lambda: _is_known(gateway, key))
        assert called_tools(gateway, key) == []  # no override names its format yet

        # Add an override, with a preview.
        olga.visit("/admin/proxy/formatoverride/add/")
        page.fill("#id_pattern", "house/*")
        page.select_option("#id_format", "kimi")
        page.wait_for_selector(".effects tr:has-text('tides') .chip:has-text('changes format')")
        olga.check()
        page.click("input[name=_save]")
        wait_for(lambda: called_tools(gateway, key) == ["get_tide"])

        # The Rules page explains the route; the dashboard counts the requests.
        olga.visit("/admin/rules/?model=tides")
        assert "the override house/*" in page.inner_text(".facts-table")
        olga.picture("operator-rules")
        wait_for_exchanges(gateway, 2)
        olga.visit("/admin/")
        assert "tides" in page.inner_text("#content")
        olga.check()
        olga.picture("operator-dashboard")

        # Change the override, then revert it from its history.
        olga.visit("/admin/proxy/formatoverride/")
        page.click("#result_list a:has-text('house/*')")
        page.select_option("#id_format", "qwen")
        page.click("input[name=_save]")
        wait_for(lambda: called_tools(gateway, key) == [])
        page.click("#result_list a:has-text('house/*')")
        page.click(".object-tools >> text=History")
        olga.picture("operator-history")
        page.click("tr:has-text('created') >> text=Revert to this")
        assert "was restored to version" in page.inner_text(".messagelist")
        olga.check()
        wait_for(lambda: called_tools(gateway, key) == ["get_tide"])

        # Export, delete the override, and import the export.
        olga.visit("/admin/configuration/")
        with page.expect_download() as download:
            page.click("text=Download athena-")
        document = download.value.path().read_text()
        assert CANARY not in document
        assert key not in document
        olga.visit("/admin/proxy/formatoverride/")
        page.click("#result_list a:has-text('house/*')")
        page.click("text=Delete")
        assert "What deleting this would change" in page.inner_text("#content")
        page.click("text=Yes, I’m sure")
        wait_for(lambda: called_tools(gateway, key) == [])
        olga.visit("/admin/configuration/")
        page.fill("#id_text", document)
        page.click("text=Show differences")
        assert "house/*" in page.inner_text("#result")
        page.click("button:text-is('Import')")
        olga.check()
        wait_for(lambda: called_tools(gateway, key) == ["get_tide"])

        # Read the list of changes, and revoke the key.
        page.click(".version")
        assert "olga" in page.inner_text(".changes")
        olga.check()
        olga.picture("operator-changes")
        olga.visit("/admin/proxy/clientkey/?state=active")
        page.click("#result_list a:has-text('the harbour')")
        page.click(".object-tools >> text=Revoke")
        page.click("text=Revoke key")
        wait_for(lambda: not _is_known(gateway, key))
    assert CANARY not in gateway.log


def _is_known(gateway, key):
    with gateway.client() as client:
        return client.get("/v1/models", headers={"x-api-key": key}).status_code == 200


@pytest.mark.parametrize(("width", "scheme"), [(1360, "light"), (390, "dark")])
def test_configuration_pages_fit_the_window_without_browser_errors(gateway, people, width, scheme):
    gateway.edit(
        "route = {'upstream': Upstream.objects.first(), 'upstream_model': 'cottage/one'}\n"
        "ModelRoute.objects.get_or_create(pattern='cottage-one', defaults=route)"
    )
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with people("olga", **look) as olga:
        page = olga.page
        olga.visit("/admin/proxy/gatewaysettings/1/change/")
        page.select_option("#id_unknown_format", "standard")
        page.wait_for_selector(".effects :text('and the gateway settings say standard')")
        olga.check()
        olga.picture(f"unknown-format-{width}-{scheme}")
        for table in ("upstream", "modelroute", "formatoverride", "clientkey"):
            for path in ("", "add/"):
                olga.visit(f"/admin/proxy/{table}/{path}")
                olga.check()
        for table in ("upstream", "modelroute", "formatsettings", "clientkey", "gatewaysettings"):
            olga.visit(f"/admin/proxy/{table}/")
            page.click("#result_list tbody th a >> nth=0")
            olga.check()
            olga.picture(f"form-{table}-{width}-{scheme}")
            olga.visit(re.search(r"/admin/.*(?=change/)", page.url)[0] + "history/")
            olga.check()
        for name in (
            "rules",
            "rules/?model=claude-sonnet",
            "rules/?model=cottage/one",
            "changes",
            "configuration",
        ):
            olga.visit(f"/admin/{name}{'' if '?' in name else '/'}")
            olga.check()
            olga.picture(f"{re.sub('[^a-z]+', '-', name)}-{width}-{scheme}")
