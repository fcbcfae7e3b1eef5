"""The report of a run as one HTML page."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from accel.cascade import load_cascade
from accel.page import (
    Lane,
    Point,
    Section,
    Series,
    Slice,
    Track,
    bars,
    lines,
    page,
    scatter,
    table,
    timeline,
    transfers,
)
from accel.page.axis import fit_axis
from accel.result import ArrayUse, Result
from mapping.graph import pass_graph
from mapping.plot_graph import draw_graph
from mapping.timeline import epoch_bars
from sim.outcome import Outcome
from sim.summary import SummaryTable, summary_tables

__all__ = ["run_page"]

EPOCHS = 3
"""Epochs of a timeline."""

ROOF_POINTS = 40


def run_page(outcome: Outcome, command: str) -> str:
    """Return the page of a run: the verdict, then everything it rests on, each part with its source.

    Parameters
    ----------
    outcome : Outcome
        What the run found.
    command : str
        The command line that makes it again.
    """
    difference = f": {outcome.first_difference}" if outcome.first_difference else ""
    verdict = (
        "Verified: the simulated Verilog gives the predicted bits in the predicted cycles with the predicted actions"
        if outcome.holds
        else f"A comparison fails{difference}"
    )
    work, first = outcome.workload, next(iter(outcome.schedules.values())).result
    summary = (
        ("attention", f"{work.heads} heads, {work.queries} x {work.keys}"),
        (f"latency on {first.schedule.architecture}", f"{first.latency_cycles:,.0f} cycles"),
        ("softmax, predicted and measured", f"{outcome.predicted_cycles:,} / {outcome.measured_cycles:,} cycles"),
        ("largest error of a weight", f"{outcome.accuracy.max_error:.2e}, proved {outcome.unit.max_error:.2e}"),
    )
    return page(
        title=f"EinRTL run {outcome.name}: {outcome.model.name}",
        verdict=verdict,
        good=outcome.holds,
        summary=summary,
        command=command,
        sections=tuple(_sections(outcome)),
    )


def _sections(outcome: Outcome) -> Iterator[Section]:
    tables = {each.title.split(":")[0]: each for each in summary_tables(outcome)}
    cascades, schedules, energy, unit, actions, checks = tables.values()
    yield _section(
        "Checks", checks, "comparison of the simulated Verilog with the golden model; result.json, comparisons"
    )
    yield Section(
        title="Cascades and their passes",
        body="".join(_graph(each.name) for each in outcome.cascades) + _table(cascades),
        source="einrtl passes on each cascade; the colour of a box is its pass; result.json, cascades",
        note=cascades.note,
    )
    yield Section(
        title="Schedules",
        body="".join(_timeline(name, found.result) for name, found in outcome.schedules.items()) + _table(schedules),
        source="einrtl map, for full tiles; Einsums that run after a loop only are left out of the picture",
        note=schedules.note,
    )
    yield Section(
        title="Use of the arrays",
        body="".join(
            bars(
                f"Use of the arrays on {name}",
                [
                    (
                        f"{name}, {each.array}",
                        100 * each.busy,
                        f"{each.busy:.1%} busy, {each.utilisation:.1%} of its PEs",
                    )
                    for each in found.result.arrays
                ],
            )
            for name, found in outcome.schedules.items()
        ),
        source="the model; result.json, schedules, arrays",
    )
    yield Section(
        title="Roofline",
        body=_roofline(outcome),
        source="work and traffic of each schedule over the limits of its architecture",
        note="Work: cycles of single PEs that compute. A roof: all PEs at work, or what the DRAM bandwidth feeds.",
    )
    yield Section(
        title="Energy",
        body="".join(_energy(name, found.result) for name, found in outcome.schedules.items()) + _table(energy),
        source="counted actions times the cost table named in the table; einrtl price --csv lists every one",
    )
    yield Section(
        title="Error of the softmax",
        body=_errors(outcome) + _table(unit),
        source="weights of the simulated Verilog against float64 softmax of the same coded scores",
    )
    yield Section(
        title="Beats at the ports",
        body="".join(_excerpts(outcome)),
        source="what the simulation saw at both ports around the first weight; a box is a beat that moved",
        note="Point at a box to see its codes. Under back-pressure both ports pause at random, from the run's seed.",
    )
    yield Section(
        title="Actions of the softmax",
        body=_table(actions),
        source="counters in the simulated Verilog, equal to the golden model's; energies from the cost table",
        note=actions.note,
    )
    left_out = dict.fromkeys(text for found in outcome.schedules.values() for text in found.result.left_out)
    yield Section(
        title="What is left out",
        body=table("Left out of the prices", ("not charged",), [(text,) for text in left_out]),
        source="the accounting of the model (docs/model.md)",
    )
    yield Section(title="Where each number comes from", body=_provenance(outcome), source="the run itself")


def _section(title: str, shown: SummaryTable, source: str) -> Section:
    return Section(title=title, body=_table(shown), source=source, note=shown.note)


def _table(shown: SummaryTable) -> str:
    return table(shown.title, shown.heads, shown.rows, numbers=shown.numbers)


def _use(use: ArrayUse) -> str:
    return f"{use.busy:.1%} busy, {use.utilisation:.1%} of its PEs"


def _graph(cascade: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.svg"
        found = load_cascade(cascade)
        draw_graph(pass_graph(found, "m"), path)
        svg = path.read_text(encoding="utf-8")
    # Identifiers are unique within a picture only: several pictures share a page.
    drawn = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{cascade}-", svg[svg.index("<svg") :])
    return f'<h3>{cascade}</h3><div class="picture" tabindex="0">{drawn}</div>'


def _timeline(name: str, result: Result) -> str:
    drawn = epoch_bars(result)
    colours = {einsum: index for index, einsum in enumerate(dict.fromkeys(bar.einsum for bar in drawn))}
    lanes = []
    for array, slot in dict.fromkeys((bar.array, bar.slot) for bar in drawn):
        own = [bar for bar in drawn if (bar.array, bar.slot) == (array, slot)]
        slices = tuple(
            Slice(
                name=bar.einsum,
                begin=epoch * result.epoch_cycles + bar.begin,
                end=epoch * result.epoch_cycles + bar.end,
                title=f"{bar.einsum}: {bar.end - bar.begin} cycles, tile {epoch - bar.offset}",
                colour=colours[bar.einsum],
            )
            for epoch in range(EPOCHS)
            for bar in own
            if bar.end > bar.begin
        )
        lanes.append(Lane(name=array if slot == 0 else f"{array} slot {slot}", slices=slices))
    return f"<h3>{name}: {EPOCHS} epochs</h3>" + timeline(f"Timeline on {name}", lanes)


def _energy(name: str, result: Result) -> str:
    parts = []
    for what, key in (("component", "unit"), ("tensor", "tensor"), ("Einsum", "einsum")):
        sums: dict[str, float] = {}
        for action in result.actions:
            owner = getattr(action, key) or "shared"
            sums[owner] = sums.get(owner, 0.0) + action.energy_pj
        rows = sorted(sums.items(), key=lambda item: -item[1])
        total = sum(sums.values()) or 1.0
        shown = [(owner, energy, f"{energy * 1e-6:,.3g} uJ, {energy / total:.1%}") for owner, energy in rows]
        parts.append(f"<h3>{name}: by {what}</h3>" + bars(f"Energy on {name} by {what}", shown))
    return "".join(parts)


def _roofline(outcome: Outcome) -> str:
    series = []
    for name, found in outcome.schedules.items():
        result, architecture = found.result, outcome.architectures[name]
        pes = {key: array.pes for key, array in architecture.arrays.items()}
        work = sum(use.utilisation * pes[use.array] for use in result.arrays)
        bytes_per_cycle = architecture.dram.bandwidth_bits_per_s / 8 / architecture.clock_hz
        intensity = work * result.latency_cycles / result.traffic_bytes
        peak = sum(pes.values())
        ridge = peak / bytes_per_cycle
        low, high = min(intensity, ridge) / 10, max(intensity, ridge) * 10
        steps = [low * (high / low) ** (index / ROOF_POINTS) for index in range(ROOF_POINTS + 1)]
        roof = tuple(Point(x=x, y=min(peak, x * bytes_per_cycle)) for x in steps)
        series.append(Series(name=f"roof of {name}", points=roof, joined=True, marked=False))
        title = f"{name}: {work:,.1f} of {peak:,} PEs at work, {intensity:,.1f} PE cycles a byte"
        series.append(Series(name=name, points=(Point(x=intensity, y=work, title=title),)))
    return scatter(
        "Roofline", series, x="work per traffic (PE cycles per byte of DRAM)", y="work per time (PEs at work)"
    )


def _errors(outcome: Outcome) -> str:
    quantiles = outcome.error_quantiles
    shares = [index / (len(quantiles) - 1) for index in range(len(quantiles))]
    measured = tuple(Point(x=error, y=100 * share) for error, share in zip(quantiles, shares, strict=True) if error > 0)
    bound = outcome.unit.max_error
    proved = (Point(x=bound, y=0), Point(x=bound, y=100))
    x = fit_axis("distance from the exact weight", [*(point.x for point in measured), bound], log=True)
    return lines(
        "Share of weights within a distance of the exact ones",
        (
            Series(name="simulated Verilog", points=measured, joined=True, marked=False),
            Series(name="proved bound", points=proved, joined=True, marked=False, dashed=True),
        ),
        x,
        fit_axis("weights within it (%)", (0, 100), zero=True),
    )


def _excerpts(outcome: Outcome) -> Iterator[str]:
    for each in outcome.excerpts:
        tracks = (Track(name="scores in", beats=each.inputs), Track(name="weights out", beats=each.outputs))
        drawn = transfers(f"Beats, {each.scenario}", tracks, first=each.first_cycle, cycles=each.cycles)
        yield f"<h3>{each.scenario}: cycles {each.first_cycle} to {each.first_cycle + each.cycles - 1}</h3>{drawn}"


def _provenance(outcome: Outcome) -> str:
    sidecar, work = outcome.sidecar, outcome.workload
    rows = (
        ("sizes of the attention", f"config.json of {outcome.model.name}: batch {work.batch}, {work.queries} tokens"),
        ("scores", outcome.head),
        *((f"schedule on {name}", "einrtl map; schedule file in this folder") for name in outcome.schedules),
        ("Verilog", f"softmax.v, SHA-256 {sidecar['verilog_sha256']}"),
        ("parameters of the unit", f"softmax.json, SHA-256 {sidecar['configuration_sha256']}"),
        ("tools", ", ".join(f"{name} {version}" for name, version in sidecar["tools"].items())),
        ("energy of schedules", ", ".join({found.result.technology for found in outcome.schedules.values()})),
        ("energy of the softmax", f"cost table {outcome.technology}"),
        ("all numbers", "result.json"),
    )
    return table("Sources", ("what", "from"), rows)
