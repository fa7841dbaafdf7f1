"""The report shows what was measured, ratios first, and no cost of a wrong answer."""

import msgspec
import pytest

from bench import readme, report, targets
from bench.growth import worker_counts
from bench.load import Block, Timing
from bench.results import Memory, Results, Share, Size, Throughput, row_of
from bench.scenarios import SCENARIOS
from bench.servers import GATEWAY_NAME, PASSTHROUGH_NAME


def block(cpu: float, failed: int = 0) -> Block:
    return Block(cpu, Timing(10, failed, 1.0, 10.0, 100.0, 1.0, 2.0, 3.0, 0.5, 0.9))


def sample_results() -> Results:
    blocks = {
        PASSTHROUGH_NAME: [block(0.1), block(0.2), block(0.1)],
        GATEWAY_NAME: [block(1.0), block(2.2), block(1.0)],
        "LiteLLM": [block(200.0)],
    }
    results = Results(
        date="2026-11-17",
        machine="2 cores",
        versions={"Python": "3.11.7", "LiteLLM": "1.106.2"},
        rounds=3,
        rows=[row_of(SCENARIOS["B"], blocks, {})],
        first_event_added={GATEWAY_NAME: 1.5, "LiteLLM": 40.0},
        memory={GATEWAY_NAME: [Memory(200, 80_000, 100_000, 8)]},
        growing_chunks=[Size(200, 2.0, 300), Size(2000, 20.0, 400)],
        growing_bytes=[Size(1000, 1.0, 300), Size(10_000, 40.0, 400)],
        workers=[Throughput(1, 500.0, 1.5), Throughput(2, 900.0, 1.6)],
        audit=Share(0.1, 0.05, 0.2),
        parts={"keys": 0.05, "audit": 0.15},
        missing=["claude-code-router is not installed"],
    )
    del blocks["LiteLLM"]
    wrong = {"LiteLLM": ["tool calls: (), expected 2"]}
    results.rows.append(row_of(SCENARIOS["E"], blocks, wrong))
    return results


def test_a_ratio_is_the_median_of_the_rounds():
    cost = sample_results().rows[0].costs[GATEWAY_NAME]
    assert (cost.ratio, cost.lowest, cost.highest) == pytest.approx((10.0, 10.0, 11.0))


def test_rounds_of_a_slow_peer_are_compared_with_the_pass_through_in_the_same_rounds():
    assert sample_results().rows[0].costs["LiteLLM"].ratio == pytest.approx(2000.0)


def test_the_headline_has_ratios_first_and_names_versions():
    lines = report.headline(sample_results()).splitlines()
    assert "LiteLLM 1.106.2" in lines[0]
    assert lines[2].startswith("| **B** 200 chunks in few writes | 10.0 (1.00 ms) | 2,000 (200 ms)")


def test_a_wrong_answer_has_no_cost_and_is_explained():
    results = sample_results()
    assert "| wrong ² |" in report.headline(results).splitlines()[3]
    assert "LiteLLM in E: tool calls: (), expected 2" in report.notes(results)


def test_results_of_another_machine_are_marked():
    results = sample_results()
    assert "other machine ¹" in report.headline(results)
    assert "not in this run" in report.notes(results)


def test_a_peer_in_the_run_is_not_cited():
    results = sample_results()
    row = results.rows[0]
    results.rows[0] = msgspec.structs.replace(
        row, costs={**row.costs, targets.GO_PEER: row.costs["LiteLLM"]}
    )
    headings, _, first, *_ = report.headline(results).splitlines()
    assert "other machine" not in headings + report.notes(results)
    assert headings.count("|") == first.count("|")


def test_missing_peers_are_named():
    assert "claude-code-router is not installed" in report.notes(sample_results())


def test_growth_is_taken_where_it_is_steepest():
    results = sample_results()
    assert report.steepest(results.growing_chunks) == pytest.approx(2.0)
    assert report.steepest(results.growing_bytes) > 2.9


def test_the_page_has_every_part():
    page = report.page(sample_results(), ["growth.svg"])
    for part in (
        "![growth.svg](growth.svg)",
        "Twice the chunks: at most 2.00 times the CPU",
        "| 2 | 900 | 1.80 × |",
        "adds 10% to B",
        "take 0.20 ms of B, 2.00 times the pass-through",
        "| 200 idle streams |",
    ):
        assert part in page


def test_a_failed_request_is_counted():
    results = sample_results()
    blocks = {PASSTHROUGH_NAME: [block(0.1)], GATEWAY_NAME: [block(1.0, failed=2)]}
    assert results.failed == 0
    results.rows.append(row_of(SCENARIOS["G"], blocks, {}))
    assert results.failed == 2


def test_results_survive_a_round_trip_through_json():
    results = sample_results()
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results


def test_only_text_between_the_marks_is_replaced():
    text = f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter"
    once = readme.replaced(text, "new")
    assert once == f"before\n{readme.BEGIN}\n\nnew\n\n{readme.END}\nafter"
    assert readme.replaced(once, "new") == once
    with pytest.raises(ValueError, match="missing"):
        readme.replaced("no marks", "new")


def test_both_readmes_have_the_marks():
    for path in (readme.README, readme.DETAILS):
        assert "new" in readme.replaced(path.read_text(), "new")


def test_the_readme_has_only_scenarios_that_every_server_answers_correctly():
    results = sample_results()
    lines = report.ratios(results).splitlines()
    assert lines[0].startswith(f"| CPU ÷ pass-through | **{GATEWAY_NAME}** |")
    assert len(lines) == 2 + len([row for row in results.rows if not row.wrong])
    assert " ms" not in "".join(lines)


def test_plots_are_drawn():
    results = sample_results()
    assert report.growth_plot(results).count("<g ") == 4
    assert report.workers_plot(results).startswith("<svg")


def test_worker_counts_double_up_to_the_number_of_cores():
    assert list(worker_counts(1)) == [1]
    assert list(worker_counts(2)) == [1, 2]
    assert list(worker_counts(6)) == [1, 2, 4, 6]
    assert list(worker_counts(8)) == [1, 2, 4, 8]
