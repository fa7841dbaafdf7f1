"""Audit list, exchange, failure group, playground and usage pages, with Django's test client."""

import json
import re
import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from msgspec.structs import replace

from formats import UNKNOWN_MARKUP, collect
from formats.native.markup_watch import _SIGNS
from proxy.audit.bulk_insert import insert_batch
from proxy.audit.journal.recovery import crashed_entry
from proxy.audit.transcripts.codec import pack
from proxy.models import (
    ClientKey,
    Comment,
    Exchange,
    FailureHour,
    FormatOverride,
    GroupState,
    Outcome,
    Replay,
    Upstream,
)
from proxy.roles import DEVELOPERS, OPERATORS, SUPPORT
from proxy.security.content_security import POLICY
from proxy.security.redaction import storable
from proxy.support.exchange_filters import LEAK_FORMATS
from tests.support.native_vectors import expected, text_and_calls
from tests.support.staff_pages import HOSTILE, get, log_in, text_of
from tests.support.stored_exchanges import (
    KIMI,
    configure,
    exchange_row,
    failure_group,
    leaked_kimi,
    stored_exchange,
)
from tests.support.wire import decode, stream, text_from, toolbox

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured():
    configure()


@pytest.fixture
def web():
    return Client()


@pytest.fixture
def support(web):
    log_in(web, SUPPORT)
    return web


def test_anonymous_users_are_redirected_to_login_and_back(web):
    response = get(web, "/admin/audit/?outcome=failed", 302)
    assert response["location"] == "/admin/login/?next=/admin/audit/%3Foutcome%3Dfailed"


def every_page(row, group):
    one, kind = [row.request_id], [group.pk]
    return {
        "list": ("get", reverse("audit:list")),
        "exchange": ("get", reverse("audit:exchange", args=one)),
        "fixture": ("get", reverse("audit:fixture", args=one)),
        "replay": ("post", reverse("audit:replay", args=one)),
        "override": ("post", reverse("audit:override", args=one)),
        "group": ("get", reverse("audit:group", args=kind)),
        "care": ("post", reverse("audit:care", args=kind)),
        "comment": ("post", reverse("audit:comment", args=kind)),
        "replay_group": ("post", reverse("audit:replay_group", args=kind)),
        "playground": ("get", reverse("audit:playground")),
        "usage": ("get", reverse("audit:usage")),
    }


ALLOWED = {
    SUPPORT: {
        "list",
        "exchange",
        "fixture",
        "replay",
        "group",
        "care",
        "comment",
        "replay_group",
        "playground",
    },
    OPERATORS: {"list", "exchange", "override", "group"},
    DEVELOPERS: {"usage"},
    "no role": set(),
}


@pytest.mark.parametrize("role", ALLOWED)
def test_each_role_can_open_only_its_own_pages(web, role):
    group = failure_group()
    pages = every_page(leaked_kimi(group=group), group)
    log_in(web, role)
    for name, (method, url) in pages.items():
        status = getattr(web, method)(url).status_code
        expected = (200, 302) if name in ALLOWED[role] else (403,)
        assert status in expected, (role, name, status)
        wrong = {"get": "post", "post": "get"}[method]
        if name != "playground":
            assert getattr(web, wrong)(url).status_code == 405, name


def test_users_who_are_no_longer_staff_are_redirected_to_login(web):
    user = log_in(web, SUPPORT)
    user.is_staff = False
    user.save()
    get(web, "/admin/audit/", 302)


def test_pages_send_a_strict_content_security_policy_and_are_not_cached(support):
    for url in ("/admin/audit/", "/admin/", "/admin/playground/", "/admin/login/"):
        response = support.get(url)
        assert response["content-security-policy"] == POLICY
        assert "no-store" in response["cache-control"]
        html = response.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", html)


def test_index_and_header_link_only_to_permitted_pages(web):
    log_in(web, SUPPORT)
    home = text_of(get(web, "/admin/"))
    assert home.count('href="/admin/audit/"') == 2
    assert "/admin/usage/" not in home
    log_in(web, DEVELOPERS)
    home = text_of(get(web, "/admin/"))
    assert "/admin/audit/" not in home
    assert home.count('href="/admin/usage/"') == 2


def ids_of(web, query=""):
    found = re.findall(r"exchanges/(req_\w+)/", text_of(get(web, f"/admin/audit/?{query}")))
    return list(dict.fromkeys(found))


def test_filters_are_read_from_the_url(support):
    key = ClientKey.objects.create(label="k", prefix="p", digest="d")
    now = timezone.now()
    plain = exchange_row(created_at=now - timedelta(days=3))
    other = exchange_row(
        created_at=now,
        outcome=Outcome.TRANSFORM_FAILED,
        format="kimi",
        model="some/model",
        upstream="elsewhere",
        served_by="Some One",
        key=key,
        error_code="call_truncated",
        leaked_format="kimi",
        family_read="glm",
        rescued_calls=2,
    )
    assert ids_of(support) == [other.request_id, plain.request_id]
    for query in (
        "outcome=transform_failed",
        "outcome=failed",
        "format=kimi",
        "model=some/model",
        "upstream=elsewhere",
        f"key={key.pk}",
        "code=call_truncated",
        "leaked=kimi",
        "leaked=any",
        "family_read=glm",
        "family_read=any",
        "served_by=Some+One",
        "rescued=any",
        "since=24h",
        f"since={now - timedelta(days=1):%Y-%m-%dT%H:%M}",
        "outcome=failed&leaked=any&since=7d",
    ):
        assert ids_of(support, query) == [other.request_id], query
    for query in (
        "outcome=ok",
        "format=standard",
        "served_by=none",
        f"until={now - timedelta(days=1):%Y-%m-%d}T00:00",
    ):
        assert ids_of(support, query) == [plain.request_id], query
    assert ids_of(support, "outcome=timeout") == []


@pytest.mark.parametrize(
    "query",
    ["key=x", "since=tomorrow", "before=-1", "until=2026-13-45", "model=%00", "rescued=some"],
)
def test_an_invalid_filter_shows_an_error_message(support, query):
    assert "errornote" not in text_of(get(support, f"/admin/audit/?{query}"))
    assert "messagelist" in text_of(get(support, f"/admin/audit/?{query}"))


def test_searching_a_request_id_opens_its_exchange(support):
    row = exchange_row()
    response = get(support, f"/admin/audit/?q={row.request_id}", 302)
    assert response["location"] == row.get_absolute_url()
    assert "No exchange has the request id req_none" in text_of(
        get(support, "/admin/audit/?q=req_none")
    )


def test_a_request_without_a_model_has_a_dash_in_its_cell(web):
    user = log_in(web, SUPPORT, DEVELOPERS)
    own = ClientKey.objects.create(label="mine", prefix="p1", digest="d1", owner=user)
    exchange_row(key=own, model="", upstream="", upstream_model="", created_at=timezone.now())
    for url in ("/admin/audit/", "/admin/usage/"):
        cell = text_of(get(web, url)).split('data-label="model">')[1].split("</td>")[0]
        assert cell == '<span class="name">–</span>', url


def test_pager_walks_the_list_by_id_in_both_directions(support):
    rows = [exchange_row().request_id for _ in range(120)][::-1]
    first = text_of(get(support, "/admin/audit/?outcome=ok"))
    assert 'rel="prev"' not in first
    older = re.search(r'rel="next" href="([^"]+)"', first)[1].replace("&amp;", "&")
    assert "outcome=ok" in older
    second = text_of(get(support, f"/admin/audit/{older}"))
    assert ids_of(support) + ids_of(support, older[1:]) == rows[:100]
    newer = re.search(r'rel="prev" href="([^"]+)"', second)[1].replace("&amp;", "&")
    assert ids_of(support, newer[1:]) == rows[:50]
    last = re.search(r'rel="next" href="([^"]+)"', second)[1].replace("&amp;", "&")
    assert ids_of(support, last[1:]) == rows[100:]
    assert 'rel="next"' not in text_of(get(support, f"/admin/audit/{last}"))


def test_query_count_does_not_grow_with_the_list(support, django_assert_max_num_queries):
    user = User.objects.create(username="assignee")
    key = ClientKey.objects.create(label="k", prefix="p", digest="d")
    for number in range(12):
        group = failure_group(assignee=user, error_code="call_truncated")
        FailureHour.objects.create(group=group, hour=timezone.now(), count=number)
        for _ in range(5):
            exchange_row(group=group, key=key)
    with django_assert_max_num_queries(15):  # one for the names of operators' formats
        get(support, "/admin/audit/")
    with django_assert_max_num_queries(18):  # two for the names of operators' formats
        get(support, f"/admin/audit/groups/{group.pk}/")


def test_failure_groups_show_sentence_count_and_sparkline(support):
    now = timezone.now()
    group = failure_group(count=1234, last_seen=now)
    hour = now.replace(minute=0, second=0, microsecond=0)
    FailureHour.objects.create(group=group, hour=hour, count=7)
    resolved = failure_group(state=GroupState.RESOLVED)
    page = text_of(get(support, "/admin/audit/"))
    assert "The answer stopped in the middle of a tool call." in page
    assert "1,234" in page
    assert 'aria-label="7 in the last 24 hours"' in page
    assert page.count("<rect") == 24
    assert resolved.get_absolute_url() not in page
    assert resolved.get_absolute_url() in text_of(get(support, "/admin/audit/?groups=all"))
    assert group.get_absolute_url() not in text_of(get(support, "/admin/audit/?format=qwen"))


def test_exchange_shows_three_columns_and_marks_the_first_wrong_place(support):
    page = text_of(get(support, leaked_kimi().get_absolute_url()))
    assert "The client got tool calls as plain text" in page
    assert page.count('class="s marker wrong"') == 2  # in the model column and in the client column
    assert "&lt;|tool_calls_section_begin|&gt;</span>" in page
    assert 'data-event="1"' in page
    assert "$ATHENA_CLIENT_KEY" in page


def test_markers_of_a_broken_call_are_marked_as_wrong(support):
    broken = 'Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{"harb'
    row = stored_exchange(
        stream({"content": broken}),
        format="kimi",
        outcome=Outcome.TRANSFORM_FAILED,
        error_code="call_truncated",
    )
    page = text_of(get(support, row.get_absolute_url()))
    assert re.search(r'class="s marker wrong"[^>]*>&lt;\|tool_calls_section_begin', page)
    assert "ToolCallFailed" in page


def test_an_exchange_without_a_transcript_says_why(support):
    key = ClientKey.objects.create(label="k", prefix="p", digest="d", capture_content=False)
    for row, reason in (
        (exchange_row(key=key), "Content capture is off for this client key"),
        (exchange_row(group=failure_group()), "enough transcripts of this failure"),
        (exchange_row(), "was not sampled"),
    ):
        page = text_of(get(support, row.get_absolute_url()))
        assert reason in page
        assert reverse("audit:replay", args=[row.request_id]) not in page


def test_operators_do_not_see_content(web):
    row = stored_exchange(stream({"content": "a secret plan"}))
    log_in(web, OPERATORS)
    page = text_of(get(web, row.get_absolute_url()))
    assert "secret plan" not in page
    assert "your role does not allow you to read it" in page


def test_a_shortened_transcript_shows_a_note(support):
    raw = stream({"content": "one"}, {"content": "two"}, {"content": "three"})
    row = stored_exchange(raw)
    kept = row.transcript
    sent = kept.content.sent
    clipped = replace(
        kept.content,
        raw=raw[:200] + raw[-150:],
        sent=sent[:400] + sent[-330:],
        left_out={"raw": [200, 999], "sent": [400, 77]},
    )
    kept.packed = pack(clipped)
    kept.save()
    page = text_of(get(support, row.get_absolute_url()))
    assert "999 bytes of <em>raw</em>" in page
    assert 'class="part failure"' not in page


def test_hostile_text_is_inert_on_every_page(support):
    stored = storable(HOSTILE)  # as the gateway stores it
    group = failure_group(family=stored[:100])
    row = stored_exchange(
        stream({"content": HOSTILE}),
        model=stored[:200],
        upstream_model=stored[:200],
        user_agent=stored[:200],
        error_code="call_truncated",
        error_message=stored,
        outcome=Outcome.TRANSFORM_FAILED,
        notices=[["rescued", stored, 2]],
        attempts=[["u", stored, "upstream_error", stored]],
        group=group,
        transcript={"request": stored, "headers": {"user-agent": stored}},
    )
    support.post(reverse("audit:comment", args=[group.pk]), {"text": HOSTILE.replace("\x00", "")})
    support.post(reverse("audit:replay", args=[row.request_id]), {"format": "kimi"})
    pages = [
        get(support, "/admin/audit/"),
        get(support, f"/admin/audit/?model={HOSTILE[:-30]}"),
        get(support, f"/admin/audit/?model={HOSTILE}"),
        get(support, f"/admin/audit/?q={HOSTILE}"),
        get(support, row.get_absolute_url()),
        get(support, group.get_absolute_url()),
        support.post("/admin/playground/", {"text": HOSTILE.replace("\x00", ""), "format": "kimi"}),
    ]
    for response in pages:
        page = text_of(response)
        assert "<script>window" not in page
        assert "<img" not in page
        shown = re.sub(r"<(input|textarea)[^>]*>[^<]*", "", page)
        assert not re.search("[\u2028\u202e\u200b\x1b\x00]", shown)
    exchange = text_of(pages[4])
    for mark in ("U+202E", "U+2028", "ESC", "NUL"):
        assert mark in exchange


def test_a_megabyte_of_hostile_text_makes_a_small_page_quickly(support):
    for char in ("\u202e\u200b", "<|x|>", "a", "<|"):
        raw = stream({"content": char * (1_000_000 // len(char))})
        row = stored_exchange(raw, leaked_format="kimi", transcript={"events": []})
        began = time.process_time()
        page = get(support, row.get_absolute_url())
        assert time.process_time() - began < 5
        assert len(page.content) < 3_000_000
        assert "characters not shown" in text_of(page)


def test_a_replay_is_stored_and_leaves_the_exchange_unchanged(support):
    row = leaked_kimi()
    response = support.post(reverse("audit:replay", args=[row.request_id]), {"format": "kimi"})
    replay = Replay.objects.get()
    assert (replay.result, replay.author.username) == ("fixed", "user with support")
    page = text_of(get(support, response["location"].partition("#")[0]))
    assert "The client would receive" in page
    assert re.search(r'<tr class="(changed|new)">', page)
    assert "An operator can make this permanent" in page
    assert row.transcript.content == Exchange.objects.get(pk=row.pk).transcript.content
    support.post(reverse("audit:replay", args=[row.request_id]), {"format": "klingon"})
    support.post(reverse("audit:replay", args=[row.request_id]), {"buffer_limit": "1"})
    assert Replay.objects.count() == 1
    get(support, f"{row.get_absolute_url()}?replay=999", 404)


def test_an_operator_creates_an_override_from_a_successful_replay(web):
    row = leaked_kimi(upstream_model="acme/harbor[1]")
    FormatOverride.objects.create(pattern="acme/*", format="qwen", priority=10)
    log_in(web, SUPPORT)
    url = reverse("audit:override", args=[row.request_id])
    web.post(reverse("audit:replay", args=[row.request_id]), {"format": "kimi"})
    replay = Replay.objects.get()
    assert web.post(url, {"replay": replay.pk}).status_code == 403
    log_in(web, OPERATORS)
    assert "from now on" in text_of(get(web, row.get_absolute_url()))
    web.post(url, {"replay": "nonsense"})
    assert FormatOverride.objects.count() == 1
    web.post(url, {"replay": replay.pk})
    override = FormatOverride.objects.get(format="kimi")
    assert (override.pattern, override.priority) == ("acme/harbor[[]1]", 9)
    web.post(url, {"replay": replay.pk})
    assert FormatOverride.objects.count() == 2


def test_an_operator_creates_an_override_from_the_family_that_auto_read(web):
    row = stored_exchange(
        stream({"content": KIMI}), format="auto", family_read="kimi", rescued_calls=1
    )
    url = reverse("audit:override", args=[row.request_id])
    log_in(web, SUPPORT)
    page = text_of(get(web, row.get_absolute_url()))
    assert "read as kimi by auto" in page
    assert "An operator can make kimi the format of this model" in page
    assert web.post(url).status_code == 403
    log_in(web, OPERATORS)
    page = text_of(get(web, row.get_absolute_url()))
    assert "Read acme/harbor-1 as kimi from now on" in page
    web.post(url, {"replay": "nonsense"})
    assert not FormatOverride.objects.exists()

    page = text_of(web.post(url, follow=True))
    override = FormatOverride.objects.get()
    assert (override.pattern, override.format) == ("acme/harbor-1", "kimi")
    assert override.note == f"auto read {row.request_id} as kimi."
    assert "acme/harbor-1 is now read as kimi." in page
    assert "from now on" not in page


@pytest.mark.parametrize("family", [None, "klingon"])
def test_an_exchange_of_which_auto_read_nothing_has_no_override_to_offer(web, family):
    row = exchange_row(format="auto", family_read=family)
    log_in(web, OPERATORS)
    web.post(reverse("audit:override", args=[row.request_id]))
    assert not FormatOverride.objects.exists()


def test_a_failed_replay_cannot_become_an_override(web):
    row = leaked_kimi()
    log_in(web, SUPPORT, OPERATORS)
    web.post(reverse("audit:replay", args=[row.request_id]), {"format": "qwen"})
    url = reverse("audit:override", args=[row.request_id])
    web.post(url, {"replay": Replay.objects.get().pk})
    assert not FormatOverride.objects.exists()


def test_downloaded_fixture_is_a_valid_test_vector(support):
    row = leaked_kimi()
    support.post(reverse("audit:replay", args=[row.request_id]), {"format": "kimi"})
    url = reverse("audit:fixture", args=[row.request_id])
    response = get(support, f"{url}?replay={Replay.objects.get().pk}")
    vector = json.loads(response.content)
    assert vector["format"] == "kimi"
    assert vector["text"].startswith("Let me look.<|tool_calls_section_begin|>")
    assert vector["expect"]["text"] == "Let me look."
    (call,) = vector["expect"]["calls"]
    assert (call["name"], call["arguments"]) == ("get_tide", {"harbor": "Bergen"})
    assert response["content-disposition"] == f'attachment; filename="{row.request_id}.jsonl"'
    assert json.loads(get(support, url).content)["expect"]["calls"] == []
    read = decode(
        text_from("openai", [vector["text"]], vector["channel"]),
        format_name="kimi",
        tools=toolbox(vector["tools"]),
    )
    assert text_and_calls(collect(read), "content") == expected(vector)


def test_downloaded_fixture_of_what_auto_read_is_a_valid_test_vector(support):
    row = stored_exchange(stream({"content": KIMI}), format="auto", family_read="kimi")
    url = reverse("audit:fixture", args=[row.request_id])
    vector = json.loads(get(support, url).content)
    assert (vector["format"], vector["expect"]["text"]) == ("auto", "Let me look.")
    assert [call["name"] for call in vector["expect"]["calls"]] == ["get_tide"]
    read = decode(
        text_from("openai", [vector["text"]], vector["channel"]),
        format_name="auto",
        tools=toolbox(vector["tools"]),
    )
    assert text_and_calls(collect(read), "content") == expected(vector)


@pytest.mark.parametrize("chosen", ["auto", ""])
def test_the_playground_reads_a_model_whose_name_tells_nothing_as_auto(support, chosen):
    tools = json.dumps([{"name": "get_tide", "input_schema": {"type": "object"}}])
    entered = {"text": KIMI, "format": chosen, "model": "house/one", "tools": tools}
    page = text_of(support.post("/admin/playground/", entered))
    assert f"Read as <strong>auto</strong> ({'chosen' if chosen else 'default'})" in page
    assert "family_read" in page
    assert "&quot;type&quot;: &quot;tool_use&quot;" in page
    undeclared = text_of(support.post("/admin/playground/", entered | {"tools": ""}))
    assert "kimi markup left in the text" in undeclared


def test_fixture_of_structured_calls_contains_deltas(support):
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    row = stored_exchange(stream({"content": "Hm."}, {"tool_calls": [call]}, finish="tool_calls"))
    vector = json.loads(get(support, reverse("audit:fixture", args=[row.request_id])).content)
    assert vector["text"] == ""
    assert [*vector["deltas"][0], *vector["deltas"][1]] == ["content", "tool_calls"]
    assert [c["name"] for c in vector["expect"]["calls"]] == ["f"]


def test_every_watched_markup_family_is_a_leak_filter():
    assert set(LEAK_FORMATS) == {*_SIGNS, UNKNOWN_MARKUP}


def test_exchange_page_needs_few_queries(support, django_assert_max_num_queries):
    row = leaked_kimi(group=failure_group())
    for name in ("kimi", "qwen", "standard"):
        support.post(reverse("audit:replay", args=[row.request_id]), {"format": name})
    with django_assert_max_num_queries(15):  # two of them keep the session alive
        get(support, row.get_absolute_url())


def test_newer_and_older_links_stay_in_the_group(support):
    group = failure_group()
    rows = [exchange_row(group=group) for _ in range(3)]
    exchange_row()
    page = text_of(get(support, rows[1].get_absolute_url()))
    assert re.search(rf'rel="prev" href="[^"]*{rows[2].request_id}', page)
    assert re.search(rf'rel="next" href="[^"]*{rows[0].request_id}', page)


def test_group_state_assignee_and_comments_are_saved(web):
    user = log_in(web, SUPPORT)
    group = failure_group()
    url = reverse("audit:care", args=[group.pk])
    web.post(url, {"state": "resolved", "assignee": user.pk})
    group.refresh_from_db()
    assert (group.state, group.assignee) == ("resolved", user)
    web.post(url, {"state": "regressed", "assignee": ""})
    web.post(url, {"state": "open", "assignee": "12345"})
    group.refresh_from_db()
    assert group.state == "resolved"
    comment = reverse("audit:comment", args=[group.pk])
    web.post(comment, {"text": "It is the new tokeniser."})
    web.post(comment, {"text": ""})
    assert Comment.objects.get().author == user
    assert "It is the new tokeniser." in text_of(get(web, group.get_absolute_url()))
    get(web, "/admin/audit/groups/999/", 404)


def test_replaying_a_group_replays_all_its_transcripts(support):
    group = failure_group()
    for _ in range(3):
        leaked_kimi(group=group)
    exchange_row(group=group)
    stored_exchange(b"data: {\n\n", group=group, outcome=Outcome.UPSTREAM_ERROR)
    url = reverse("audit:replay_group", args=[group.pk])
    page = text_of(support.post(url, {"format": "kimi"}, follow=True))
    assert "4 replayed: 3 fixed, 1 still failing, 0 newly broken." in page
    assert Replay.objects.count() == 4
    assert page.count('class="chip result-fixed"') == 3


@pytest.mark.parametrize("chunking", ["whole", "characters", "pieces", "random"])
def test_the_playground_shows_both_dialects_and_stores_nothing(support, chunking):
    tables = (Exchange, Replay, Upstream, FormatOverride)
    before = [table.objects.count() for table in tables]
    text = 'Hi\r\n<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>'
    entered = {
        "text": text,
        "model": "moonshotai/kimi-k2",
        "chunking": chunking,
        "size": 3,
        "seed": 4,
    }
    page = text_of(support.post("/admin/playground/", entered))
    assert "Read as <strong>kimi</strong> (detection)" in page
    assert "&quot;tool_use&quot;" in page
    assert "&quot;tool_calls&quot;" in page
    assert before == [table.objects.count() for table in tables]


def test_playground_accepts_a_stream_and_explains_invalid_input(support):
    wire = stream({"content": "Hello"}).decode()
    page = text_of(support.post("/admin/playground/", {"text": wire, "format": "standard"}))
    assert "TextDelta" in page
    page = text_of(support.post("/admin/playground/", {"text": "x", "tools": "{"}))
    assert "must be a JSON list" in page
    many = {"text": "x" * 100_000, "chunking": "characters"}
    assert "more than 50,000 pieces" in text_of(support.post("/admin/playground/", many))
    assert "This field is required" in text_of(support.post("/admin/playground/", {"text": ""}))


def test_developers_see_only_their_own_keys(web):
    user = log_in(web, DEVELOPERS)
    own = ClientKey.objects.create(label="mine", prefix="p1", digest="d1", owner=user)
    other = ClientKey.objects.create(label="theirs", prefix="p2", digest="d2")
    now = timezone.now()
    mine = exchange_row(key=own, created_at=now, input_tokens=1200, output_tokens=34)
    exchange_row(key=own, created_at=now, outcome=Outcome.TIMEOUT, error_code="upstream_idle")
    hidden = exchange_row(key=other, created_at=now, model="hidden-model")
    page = text_of(get(web, "/admin/usage/"))
    assert mine.request_id in page
    assert "1,200" in page
    for secret in (hidden.request_id, "theirs", "hidden-model"):
        assert secret not in page
    own.delete()
    assert "You have no client key" in text_of(get(web, "/admin/usage/"))


def test_an_exchange_lost_with_its_process_says_so(support):
    insert_batch([crashed_entry({**OPEN_EXCHANGE, "created_at": timezone.now()}, timezone.now())])
    row = Exchange.objects.get()
    page = get(support, row.get_absolute_url()).content.decode()
    assert "The gateway process was killed or ran out of memory." in page
    assert "<dd>unknown" in page
    for url in (
        f"{reverse('audit:list')}?outcome=crashed",
        f"{reverse('audit:list')}?outcome=failed",
    ):
        assert row.request_id in get(support, url).content.decode()
    assert "worker_lost" in get(support, row.group.get_absolute_url()).content.decode()


OPEN_EXCHANGE = {
    "request_id": "req_lost",
    "key_id": None,
    "dialect": "anthropic",
    "model": "claude-sonnet-4-5",
    "is_streaming": True,
    "gateway_ms": 0.0,
    "configuration_version": 1,
}


def test_an_empty_upstream_answer_is_not_shown_as_truncated(support):
    row = stored_exchange(
        b"",
        transcript={"raw": b"", "events": [], "reading": {}},
        outcome=Outcome.UPSTREAM_ERROR,
        error_code="upstream_unreachable",
    )
    page = text_of(get(support, row.get_absolute_url()))
    sent = page.partition("What the model sent")[2].partition("What Athena decoded")[0]
    assert "Nothing." in sent
    assert "finish reason" not in sent
    assert "No connection to openrouter could be made." in page
    assert "Download as test fixture" not in page, "there is nothing to make one of"
    assert "A replay decodes the stored bytes" not in page


@pytest.mark.parametrize(
    "outcome", [Outcome.CLIENT_ERROR, Outcome.DRAINED, Outcome.UPSTREAM_ERROR, Outcome.CRASHED]
)
def test_a_failure_without_a_transcript_is_not_shown_as_success(support, outcome):
    row = exchange_row(outcome=outcome, error_code="at_capacity")
    page = text_of(get(support, row.get_absolute_url()))
    assert "No transcript was kept." in page
    assert "No problems." not in page
    assert "It succeeded" not in page
