"""An operator exports the configuration and imports an edited one, on a desktop and on a phone."""

import re

import pytest

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1360, "height": 900}


@pytest.mark.parametrize(
    ("look", "viewport", "scheme"),
    [("wide", DESK, "light"), ("phone", PHONE, "dark")],
    ids=["wide", "phone"],
)
def test_a_document_is_exported_edited_and_imported(people, gateway, look, viewport, scheme):
    document = gateway.manage("config", "export").stdout
    model = f"house/model-for-the-{look}"
    changed = re.sub(
        r"(pattern: claude-\*opus.*\n.*\n  upstream_model: ).*", rf"\g<1>{model}", document
    )
    with people("olga", viewport=viewport, color_scheme=scheme) as olga:
        page = olga.page
        page.click("text=Export and import")
        with page.expect_download() as download:
            page.click("text=Download athena-")
        assert re.fullmatch(r"athena-\d+\.yaml", download.value.suggested_filename)
        assert download.value.path().read_text() == document
        page.fill("#id_text", changed.replace("default_route: default", "default_rout: default"))
        page.click("text=Show differences")
        assert "gateway.default_rout" in page.inner_text("#result")
        olga.picture(f"configuration-refused-{look}")
        olga.check()
        page.fill("#id_text", changed)
        page.click("text=Show differences")
        assert "1 row would change" in page.inner_text("#result")
        olga.picture(f"configuration-difference-{look}")
        olga.check()
        page.click("button:text-is('Import')")
        assert "Imported: 1 row changed" in page.inner_text("#result")
        olga.check()
    assert model in gateway.manage("config", "export").stdout
