"""Dashboard: its numbers match the exchanges they link to; charts and number formats."""

import random
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from proxy.audit.bulk_insert import insert_batch
from proxy.audit.traffic.range_query import RANGES, Sums, query_facet, query_range
from proxy.models import (
    FAILURES,
    ConfigurationVersion,
    Exchange,
    GatewayProcess,
    GatewaySettings,
    TrafficSum,
)
from proxy.pages.charts import HEIGHT, Point, bar_chart, line_chart, round_top
from proxy.pages.dashboard import board_context
from proxy.pages.number_format import count_figure, format_count, format_duration, format_percent
from proxy.roles import DEVELOPERS, OPERATORS, SUPPORT
from proxy.support.exchange_filters import filter_exchanges
from tests.support.journal_entries import random_entry
from tests.support.staff_pages import HOSTILE, log_in, text_of
from tests.support.stored_exchanges import configure

NOW = datetime(2026, 6, 1, 12, 34, tzinfo=UTC)


def client_with_role(role):
    client = Client()
    log_in(client, role)
    return client


def tile(board, label):
    return next(one for one in board["tiles"] if one.label == label)


def table(board, title):
    rows = next(rows for name, rows in board["tables"] if name == title)
    return {row.name: row for row in rows}


def linked_exchanges(href):
    """Return the exchanges that a dashboard link lists."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(href).query).items()}
    assert urlsplit(href).path == "/admin/audit/"
    return filter_exchanges(query, NOW)


@pytest.mark.django_db
def test_dashboard_is_shown_only_to_users_who_may_view_exchanges():
    configure()
    for role, is_shown, configures in (
        (SUPPORT, True, False),
        (OPERATORS, True, True),
        (DEVELOPERS, False, False),
        ("no role", False, False),
    ):
        page = text_of(client_with_role(role).get("/admin/"))
        assert ('class="tiles"' in page) == is_shown, role
        assert ("Model routes" in page) == configures, role
        assert ("Recent actions" in page) != is_shown, role
    assert Client().get("/admin/")["location"] == "/admin/login/?next=/admin/"


@pytest.mark.django_db
@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("seed", range(2))
def test_every_number_matches_the_exchanges_it_links_to(name, seed):
    chance = random.Random(seed)
    spread = RANGES[name].length.total_seconds() * 1.3
    ages = sorted((chance.random() * spread for _ in range(300)), reverse=True)
    insert_batch([random_entry(chance, created_at=NOW - timedelta(seconds=age)) for age in ages])
    board = board_context(name, NOW)
    since = RANGES[name].start(NOW)
    inside = Exchange.objects.filter(created_at__gte=since)
    requests = tile(board, "Requests").figure
    assert requests.text == f"{inside.count():,}"
    assert set(linked_exchanges(requests.href)) == set(inside)
    for row in [row for _, rows in board["tables"] for row in rows]:
        here = linked_exchanges(row.figures["requests"].href)
        assert row.figures["requests"].text == f"{here.count():,}", row
        failed = here.filter(outcome__in=FAILURES)
        assert row.figures["failed"].text == format_percent(failed.count() / here.count()), row
        if failed:
            assert set(linked_exchanges(row.figures["failed"].href)) == set(failed)
        rescued = here.filter(rescued_calls__gt=0)
        calls = sum(rescued.values_list("rescued_calls", flat=True))
        assert row.figures["rescued calls"].text == str(calls), row
        if calls:
            assert set(linked_exchanges(row.figures["rescued calls"].href)) == set(rescued)
        leaked = here.exclude(leaked_format="")
        assert row.figures["leaked"].text == format_percent(leaked.count() / here.count()), row
    for step in board["steps"]:
        if step.figures["requests"].href:
            here = linked_exchanges(step.figures["requests"].href)
            assert step.figures["requests"].text == str(here.count())
    assert sum(int(step.figures["requests"].text) for step in board["steps"]) == inside.count()
    assert len(board["steps"]) == len(board["requests"].columns)


@pytest.mark.django_db
def test_tables_show_ten_values_and_sum_the_rest_as_other():
    chance = random.Random(1)
    batch = [
        random_entry(chance, created_at=NOW, model=f"m{number:02}", output_tokens=None)
        for number in range(13)
        for _ in range(20 - number)
    ]
    insert_batch(batch)
    rows = table(board_context("24h", NOW), "By model")
    assert list(rows) == [*(f"m{number:02}" for number in range(10)), "Other"]
    other = rows["Other"].figures
    assert other["requests"].text == str(10 + 9 + 8)
    assert other["requests"].href == ""
    assert other["tokens out"].text == "–"
    assert len(query_facet(RANGES["24h"], NOW, "model")) == 11


@pytest.mark.django_db
def test_unknown_numbers_are_shown_as_a_dash_not_zero():
    board = board_context("24h", NOW)
    assert tile(board, "Requests").figure.text == "0"
    for label in ("Failure rate", "Leak rate", "Tokens in", "Time to first byte", "Open streams"):
        figure = tile(board, label).figure
        assert (figure.text, figure.href) == ("–", ""), label
    assert board["requests"].columns[0].blocks == []
    assert board["times"].lines[0].path == ""
    insert_batch(
        [random_entry(random.Random(1), created_at=NOW, input_tokens=None, first_byte_ms=None)]
    )
    board = board_context("24h", NOW)
    assert tile(board, "Tokens in").figure.text == "–"
    assert tile(board, "Time to first byte").figure.text == "–"
    assert tile(board, "Failure rate").figure.text in ("0 %", "100 %")


@pytest.mark.django_db
def test_served_by_table_names_the_upstream():
    chance = random.Random(1)
    for upstream, served_by in (("openrouter", "Two Words"), ("openrouter", ""), ("", "")):
        insert_batch([random_entry(chance, created_at=NOW, upstream=upstream, served_by=served_by)])
    rows = table(board_context("24h", NOW), "Served by")
    assert {row.name: row.detail for row in rows.values()} == {
        "Two Words": "via openrouter",
        "openrouter": "",
        "no upstream": "",
    }
    for row in rows.values():
        assert linked_exchanges(row.figures["requests"].href).count() == 1


@pytest.mark.django_db
def test_process_tiles_sum_over_running_processes():
    ConfigurationVersion.objects.update_or_create(pk=1, defaults={"number": 7})
    for name, version, silence in (("a:1", 7, 0), ("b:1", 6, 3), ("dead:1", 7, 60)):
        GatewayProcess.objects.create(
            token=name,
            name=name,
            configuration_version=version,
            open_streams=3,
            audit_waiting=2,
            audit_dropped=int(name == "b:1"),
        )
        silent = Now() - timedelta(seconds=silence)
        GatewayProcess.objects.filter(name=name).update(seen_at=silent)
    board = board_context("24h", NOW)
    assert tile(board, "Open streams").figure.text == "6"
    assert tile(board, "Audit queue").figure.text == "4"
    assert tile(board, "Audit queue").is_bad
    assert tile(board, "Configuration").figure.text == "v7"
    assert tile(board, "Configuration").notes[0].text == "live in 1 of 2 processes"


@pytest.mark.django_db
def test_a_range_longer_than_the_retention_shows_a_note():
    configure()
    GatewaySettings.objects.update(exchange_days=10)
    assert board_context("7d", NOW)["oldest"] is None
    assert board_context("30d", NOW)["oldest"] == datetime(2026, 5, 22, tzinfo=UTC)
    web = client_with_role(SUPPORT)
    assert "Exchanges are kept for 10 days" in text_of(web.get("/admin/?range=30d"))
    assert "Exchanges are kept for" not in text_of(web.get("/admin/"))


@pytest.mark.django_db
def test_an_unknown_range_means_24_hours():
    configure()
    web = client_with_role(SUPPORT)
    for name in ("", "1y", HOSTILE):
        page = text_of(web.get("/admin/", {"range": name}))
        assert re.findall(r'href="\?range=(\w+)" aria-current', page) == ["24h"]


@pytest.mark.django_db
def test_hostile_names_are_inert():
    configure()
    stored = HOSTILE.replace("\0", "")
    hostile = {"model": stored, "upstream": "openrouter", "served_by": stored[:100]}
    insert_batch([random_entry(random.Random(1), created_at=timezone.now(), **hostile)])
    web = client_with_role(SUPPORT)
    page = text_of(web.get("/admin/"))
    assert "<script>window" not in page
    assert "<img" not in page
    assert not re.search("[\u2028\u202e\u200b\x1b]", page)
    link = next(one for one in re.findall(r'href="([^"]+)"', page) if "model=" in one)
    listed = text_of(web.get(unescape(link)))
    assert listed.count("/admin/audit/exchanges/req_") == 1


@pytest.mark.django_db
def test_dashboard_needs_few_queries_regardless_of_traffic(django_assert_max_num_queries):
    configure()
    chance = random.Random(1)
    web = client_with_role(OPERATORS)
    for _ in range(2):
        with django_assert_max_num_queries(18):
            web.get("/admin/?range=90d")
        now = timezone.now()
        insert_batch(
            [
                random_entry(chance, created_at=now - timedelta(hours=hour), model=f"m{hour}")
                for hour in range(300)
            ]
        )
    assert TrafficSum.objects.count() > 600


def test_ranges_are_of_whole_hours_or_days_and_end_now():
    assert RANGES["24h"].steps(NOW)[0] == datetime(2026, 5, 31, 13, tzinfo=UTC)
    assert RANGES["24h"].steps(NOW)[-1] == datetime(2026, 6, 1, 12, tzinfo=UTC)
    week = RANGES["7d"].steps(NOW)
    assert (week[0], week[-1]) == (
        datetime(2026, 5, 26, tzinfo=UTC),
        datetime(2026, 6, 1, 12, tzinfo=UTC),
    )
    assert len(RANGES["90d"].steps(NOW)) == 90


@pytest.mark.django_db
def test_an_exchange_is_counted_in_the_step_of_its_hour():
    chance = random.Random(1)
    for hours in (0, 6, 30):
        insert_batch([random_entry(chance, created_at=NOW - timedelta(hours=hours))])
    seen = query_range(RANGES["7d"], NOW)
    full = [step.start for step in seen.steps if step.sums.requests]
    assert full == [
        datetime(2026, 5, 31, 6, tzinfo=UTC),
        datetime(2026, 6, 1, 6, tzinfo=UTC),
        datetime(2026, 6, 1, 12, tzinfo=UTC),
    ]
    assert Sums.of([]) == Sums()


@pytest.mark.parametrize(
    ("largest", "top"),
    [(0, 2), (1, 2), (3, 4), (9, 10), (10, 10), (11, 20), (410, 600), (8001, 10000)],
)
def test_axis_maximum_is_a_round_number(largest, top):
    assert round_top(largest) == top


def test_bars_fit_the_chart_and_small_values_stay_visible():
    points = [Point("", "", values) for values in ((0, 0), (99_999, 1), (0, 100_000))]
    empty, both, failed = bar_chart(points, ("fine", "failed"), format_count).columns
    assert empty.blocks == []
    assert [block.kind for block in both.blocks] == ["fine", "failed"]
    assert both.blocks[1].height == 2
    assert failed.blocks[0].height == HEIGHT
    assert min(block.y for column in (both, failed) for block in column.blocks) >= 0
    assert empty.x == 0
    assert failed.x + failed.width == pytest.approx(1000, abs=0.1)


def test_a_line_has_gaps_and_an_isolated_value_is_a_dot():
    points = [Point("", "", (value,)) for value in (1000.0, None, 500.0, 2000.0)]
    chart = line_chart(points, ("p50",), format_duration)
    assert chart.lines[0].path == "M125.0 100.0h0M625.0 150.0h0L875.0 0.0"
    assert chart.ticks == ["2.0 s", "1.0 s", "0"]


@pytest.mark.parametrize(
    ("formatted", "text"),
    [
        (format_percent(0), "0 %"),
        (format_percent(1), "100 %"),
        (format_percent(0.00001), "< 0.01 %"),
        (format_percent(0.0005), "0.05 %"),
        (format_percent(0.0234), "2.3 %"),
        (format_percent(0.9999), "> 99.9 %"),
        (format_duration(0.52), "0.5 ms"),
        (format_duration(9.97), "10 ms"),
        (format_duration(812.5), "810 ms"),
        (format_duration(996), "1.0 s"),
        (format_duration(34_567), "35 s"),
        (format_count(9_999), "9,999"),
        (format_count(12_345), "12.3 k"),
        (format_count(999_600), "1 M"),
        (format_count(1_234_567_890), "1.23 B"),
    ],
)
def test_numbers_are_rounded_for_display(formatted, text):
    assert formatted == text


def test_a_count_of_one_uses_the_singular():
    assert count_figure(1, "", "answers", singular="answer").text == "1 answer"
    assert count_figure(0, "", "answers", singular="answer").text == "0 answers"
    assert count_figure(1000, "", "answers", singular="answer").text == "1,000 answers"


@pytest.mark.django_db
def test_links_work_for_any_model_name():
    chance = random.Random(1)
    names = ["", "none", " none", '"', '""', '"none"', "a&model=b", "%00", "é<b>", "\t"]
    counts = {name: number for number, name in enumerate(names, 1)}
    insert_batch(
        [
            random_entry(chance, created_at=NOW, model=name)
            for name in names
            for _ in range(counts[name])
        ]
    )
    for name, row in table(board_context("24h", NOW), "By model").items():
        models = linked_exchanges(row.figures["requests"].href).values_list("model", flat=True)
        called = "" if name == "no model" else name
        assert list(models) == [called] * counts[called]
