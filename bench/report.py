"""Writes the report as Markdown and plots: ratios first, then details."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from bench import targets
from bench.plot import Line, Panel, document, in_proportion
from bench.results import Cost, Memory, Results, Row, Size
from bench.servers import GATEWAY_NAME, PASSTHROUGH_NAME


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    """A number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def heading(results: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    return f"{results.date}; {results.machine}; {versions}; interleaved rounds: {results.rounds}"


def _servers(results: Results) -> list[str]:
    """All servers except the pass-through, in the order of the run."""
    names: dict[str, None] = {}
    for row in results.rows:
        names |= dict.fromkeys([*row.costs, *row.wrong])
    return [name for name in names if name != PASSTHROUGH_NAME]


def _named(results: Results, server: str) -> str:
    return f"{server} {results.versions[server]}" if server in results.versions else server


def headline(results: Results) -> str:
    """The table of ratios."""
    servers = _servers(results)
    is_cited = targets.GO_PEER not in servers
    rows = []
    for row in results.rows:
        target = targets.TARGETS.get(row.letter)
        ratio = target.ratio if target else None
        rows.append(
            [
                f"**{row.letter}** {row.title}",
                *(_ratio(row, server) for server in servers),
                f"≤ {number(ratio)}" if ratio else "–",
                number(target.go_ratio) if target and target.go_ratio else "–",
            ]
        )
    if results.first_event_added:
        added = results.first_event_added
        cells = [f"+{added[name]:.2f} ms" if name in added else "–" for name in servers]
        go = f"+{targets.GO_FIRST_EVENT} ms"
        limit = f"≤ {targets.FIRST_EVENT} ms on that machine"
        rows.append(["first event of B, added", *cells, limit, go])
    if results.memory:
        held = results.memory
        cells = [f"{_per_stream(held[name]):.0f} KB" if name in held else "–" for name in servers]
        go, limit = f"{targets.GO_IDLE_STREAM} KB", f"≤ {targets.IDLE_STREAM} KB"
        rows.append(["**H** memory of an idle stream", *cells, limit, go])
    names = [f"**{GATEWAY_NAME}**", *(_named(results, name) for name in servers[1:])]
    titles = ["CPU of a request ÷ pass-through", *names, "target", f"{targets.GO} ¹"]
    width = len(titles) if is_cited else -1
    return table(titles[:width], [row[:width] for row in rows])


def ratios(results: Results) -> str:
    """The short table for the README: CPU per request as a multiple of the pass-through's."""
    servers = _servers(results)
    rows = [
        [
            f"**{row.letter}** {row.title}",
            *(
                number(row.costs[server].ratio) if server in row.costs else "–"
                for server in servers
            ),
        ]
        for row in results.rows
        if not row.wrong
    ]
    names = [f"**{GATEWAY_NAME}**", *(_named(results, name) for name in servers[1:])]
    return table(["CPU ÷ pass-through", *names], rows)


def _ratio(row: Row, server: str) -> str:
    if server in row.wrong:
        return "wrong ²"
    cost = row.costs.get(server)
    return f"{number(cost.ratio)} ({number(cost.cpu)} ms)" if cost else "–"


def _per_stream(series: Sequence[Memory]) -> float:
    return median(entry.per_stream for entry in series)


def notes(results: Results) -> str:
    """Notes below the table."""
    limit = ", ".join(
        f"{row.letter} {number(row.costs[PASSTHROUGH_NAME].cpu)}"
        for row in results.rows
        if PASSTHROUGH_NAME in row.costs
    )
    lines = [f"Milliseconds of the pass-through itself: {limit}."]
    if targets.GO_PEER not in _servers(results):
        lines.append(f"¹ {targets.GO_NOTE}")
    if wrong := _wrong(results):
        lines.append(f"² {wrong}")
    troubles = [f"Not measured: {trouble}" for trouble in results.troubles]
    return "\n\n".join([*lines, *results.missing, *troubles])


def _wrong(results: Results) -> str:
    lines = [
        f"{server} in {row.letter}: {'; '.join(mistakes)}"
        for row in results.rows
        for server, mistakes in row.wrong.items()
    ]
    return "Not measured, because the answer is wrong. " + ". ".join(lines) if lines else ""


def ahead(results: Results) -> str:
    """CPU time of each peer as a multiple of Athena's."""
    peers = _servers(results)[1:]
    rows = []
    for row in results.rows:
        own = row.costs.get(GATEWAY_NAME)
        cells = [
            f"{number(row.costs[peer].cpu / own.cpu)} ×" if own and peer in row.costs else "–"
            for peer in peers
        ]
        rows.append([f"{row.letter} {row.title}", *cells])
    return table([f"CPU of a request ÷ {GATEWAY_NAME}'s", *peers], rows) if peers else ""


def _cost_cells(cost: Cost, *, streamed: bool) -> list[str]:
    return [
        number(cost.cpu),
        number(cost.ratio),
        f"{number(cost.lowest)}–{number(cost.highest)}",
        number(cost.requests_per_second),
        number(cost.p50),
        number(cost.p99),
        number(cost.first_event) if streamed else "–",
        str(cost.failed),
    ]


def details(results: Results) -> str:
    """All numbers of scenarios and memory."""
    parts = []
    if results.rows:
        titles = ["CPU ms", "ratio", "lowest–highest", "req/s", "p50 ms", "p99 ms", "TTFE ms"]
        rows = [
            [f"{row.letter} {row.title}", server, *_cost_cells(cost, streamed=row.streamed)]
            for row in results.rows
            for server, cost in row.costs.items()
        ]
        parts.append(table(["scenario", "server", *titles, "failed"], rows))
    if wrong := _wrong(results):
        parts.append(wrong)
    if results.first_event_added:
        listed = ", ".join(f"{n} {ms:+.2f} ms" for n, ms in results.first_event_added.items())
        parts.append(f"Time added to the first event of the upstream in B: {listed}.")
    if results.chunk:
        listed = ", ".join(f"{n} {us:.2f} µs" for n, us in results.chunk.items())
        parts.append(f"CPU per chunk, (B − G) / 197: {listed}.")
    if results.memory:
        parts.append(_memory(results))
    return "\n\n".join(parts)


def _memory(results: Results) -> str:
    rows = []
    for server, series in results.memory.items():
        each = [entry.per_stream for entry in series]
        rows.append(
            [
                server,
                f"{median(entry.before for entry in series) / 1024:.1f} MB",
                f"{median(entry.held for entry in series) / 1024:.1f} MB",
                f"{median(each):.0f} KB",
                f"{min(each):.0f}–{max(each):.0f}",
                str(max(entry.threads for entry in series)),
            ]
        )
    streams = next(iter(results.memory.values()))[0].streams
    titles = ["before", "with streams", "per stream", "lowest–highest", "threads"]
    return table([f"{streams} idle streams", *titles], rows)


def _sizes(title: str, unit: str, sizes: Sequence[Size]) -> str:
    rows = [
        [
            f"{size.amount:,}",
            f"{number(size.cpu)} ms",
            f"{size.cpu / size.amount * 1e6:,.0f} ns",
            f"{size.peak / 1024:.1f} MB",
        ]
        for size in sizes
    ]
    return table([title, "CPU", f"per {unit}", "peak memory added"], rows)


def steepest(sizes: Sequence[Size]) -> float:
    """The factor by which the cost grows for twice the amount, where it is highest."""
    powers = [math.log(b.cpu / a.cpu) / math.log(b.amount / a.amount) for a, b in pairwise(sizes)]
    return float(2 ** max(powers))


def growth(results: Results) -> str:
    parts = []
    for title, unit, sizes in (
        ("chunks", "chunk", results.growing_chunks),
        ("bytes of arguments", "byte", results.growing_bytes),
    ):
        if sizes:
            summary = f"Twice the {title}: at most {steepest(sizes):.2f} times the CPU."
            parts += [_sizes(title, unit, sizes), summary]
    if results.workers:
        first = results.workers[0]
        rows = [
            [
                str(entry.workers),
                number(entry.requests_per_second),
                f"{entry.requests_per_second / first.requests_per_second:.2f} ×",
                f"{number(entry.cpu)} ms",
            ]
            for entry in results.workers
        ]
        parts.append(table(["workers", "req/s in B", "÷ one worker", "CPU"], rows))
        parts.append("The load generator and the mock upstream share the cores with the workers.")
    return "\n\n".join(parts)


def shares(results: Results) -> str:
    parts = []
    if results.audit:
        share = results.audit
        parts.append(
            f"Keeping every transcript adds {share.median:.0%} to B "
            f"({share.lowest:.0%} to {share.highest:.0%}); target: ≤ {targets.AUDIT_SHARE:.0%}."
        )
    if results.parts:
        listed = ", ".join(f"{part} {ms:.3f} ms" for part, ms in results.parts.items())
        total = sum(results.parts.values())
        times = [
            f", {number(total / row.costs[PASSTHROUGH_NAME].cpu)} times the pass-through"
            for row in results.rows
            if row.letter == "B" and PASSTHROUGH_NAME in row.costs
        ]
        limit = number(targets.PARTS.ratio or 0)
        parts.append(
            f"Keys, routing and audit take {total:.2f} ms of B{''.join(times)} ({listed}); "
            f"target: ≤ {limit} times, {targets.PARTS.milliseconds} ms on that machine."
        )
    return "\n\n".join(parts)


def page(results: Results, plots: Sequence[str]) -> str:
    """The whole report; `plots` are the names of files in the same folder."""
    pictures = "\n\n".join(f"![{name}]({name})" for name in plots)
    sections = [
        "# What a request costs",
        heading(results) + f"; {results.seconds / 60:.1f} minutes",
        headline(results),
        notes(results),
        ahead(results),
        "## Growth",
        growth(results),
        pictures,
        "## Audit, keys and routing",
        shares(results),
        "## Details",
        details(results),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def growth_plot(results: Results) -> str:
    panels = []
    for title, sizes in (
        ("chunks", results.growing_chunks),
        ("bytes of arguments", results.growing_bytes),
    ):
        cpu = [(float(size.amount), size.cpu) for size in sizes]
        panels.append(
            Panel(f"CPU of a request, ms, by {title}", title, [in_proportion(cpu), Line("", cpu)])
        )
    for title, sizes in (
        ("chunks", results.growing_chunks),
        ("bytes of arguments", results.growing_bytes),
    ):
        # Below 1 MB is the memory of any request, and chance.
        held = [(float(size.amount), max(1.0, size.peak / 1024)) for size in sizes]
        panels.append(Panel("Memory added, MB (at least 1)", title, [Line("", held)]))
    return document(panels)


def workers_plot(results: Results) -> str:
    points = [(float(entry.workers), entry.requests_per_second) for entry in results.workers]
    first = points[0][1]
    ideal = Line("ideal", [(0.0, 0.0), (points[-1][0], first * points[-1][0])], is_guide=True)
    lines = [ideal, Line("", points)]
    return document([Panel("Requests per second in B, by workers", "workers", lines, log=False)])
