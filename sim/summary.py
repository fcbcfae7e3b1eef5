"""The tables of a run's outcome, for the terminal and for the report alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accel.softmax_unit import SOFTMAX_ACTIONS
from mapping.search import SearchResult
from sim.outcome import Outcome

__all__ = ["SummaryTable", "summary_tables"]

OPERATIONS = ("multiply", "add", "subtract", "max", "exp", "divide")


@dataclass(frozen=True, kw_only=True)
class SummaryTable:
    """A table with its heads; ``numbers`` are the columns that align to the right.

    Parameters
    ----------
    title : str
        What it shows.
    heads : tuple of str
        Column heads, with units.
    rows : tuple of tuple of str
        Cells.
    numbers : tuple of int
        Columns of numbers.
    note : str
        What a reader must know beside it; may be empty.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    note: str = ""


def summary_tables(outcome: Outcome) -> tuple[SummaryTable, ...]:
    """Return the tables in the order of the flow; what was checked comes last."""
    return (
        _cascades(outcome),
        _schedules(outcome),
        _energy(outcome),
        _unit(outcome),
        _actions(outcome),
        _checks(outcome),
    )


def _cascades(outcome: Outcome) -> SummaryTable:
    present = [name for name in OPERATIONS if any(name in each.operations for each in outcome.cascades)]
    work = outcome.workload
    tiles = {f"{key} = {size}" for each in outcome.cascades for key, size in each.sizes.items() if key[-1].isdigit()}
    return SummaryTable(
        title=f"Cascades: one head, {work.queries} queries, {work.keys} keys",
        heads=("cascade", "passes over keys", "live words per query", *present),
        rows=tuple(
            (
                each.name,
                str(each.analysis.passes),
                each.live,
                *(f"{each.operations.get(name, 0):,}" for name in present),
            )
            for each in outcome.cascades
        ),
        numbers=(1, *range(3, 3 + len(present))),
        note=f"Live words: whole fibers over the keys that must be kept or made again. {_tile_note(tiles)}".strip(),
    )


def _tile_note(tiles: Iterable[str]) -> str:
    text = ", ".join(sorted(tiles))
    return f"Tiles of the schedule found: {text}." if text else ""


def _schedules(outcome: Outcome) -> SummaryTable:
    work = outcome.workload
    rows = []
    for name, found in outcome.schedules.items():
        result = found.result
        use = {each.array: each for each in result.arrays}
        rows.append(
            (
                name,
                " ".join(f"{rank}={size}" for rank, size in found.schedule.tiles.items()),
                f"{result.latency_cycles:,.0f}",
                _seconds(result.latency_s),
                *(f"{100 * each.busy:.1f} / {100 * each.utilisation:.1f}" for each in use.values()),
                _bytes(result.traffic_bytes),
                _joules(result.energy_pj),
                _limit(found),
                f"{100 * found.gap:.1f}",
            )
        )
    arrays = tuple(next(iter(outcome.schedules.values())).result.arrays)
    accountings = {found.result.accounting for found in outcome.schedules.values()}
    return SummaryTable(
        title=(
            f"Schedules of {next(iter(outcome.schedules.values())).schedule.cascade}: one layer, batch {work.batch}, "
            f"{work.heads} heads"
        ),
        heads=(
            *("architecture", "tiles", "cycles", "latency"),
            *(f"{each.array} busy / used, %" for each in arrays),
            *("DRAM traffic", "energy", "limited by", "above floor, %"),
        ),
        rows=tuple(rows),
        numbers=tuple(range(2, 6 + len(arrays))),
        note=f"Accounting: {'; '.join(sorted(accountings))}.",
    )


def _limit(found: SearchResult) -> str:
    floor = max(found.floors, key=lambda each: each.cycles)
    return f"{found.result.limit} (floor {floor.cycles:,.0f}: {floor.resource})"


def _energy(outcome: Outcome) -> SummaryTable:
    units = list(dict.fromkeys(unit for each in outcome.schedules.values() for unit in each.result.energy_pj_by_unit))
    rows = []
    for name, found in outcome.schedules.items():
        parts = found.result.energy_pj_by_unit
        total = found.result.energy_pj
        cells = (
            f"{_joules(parts[unit])} ({100 * parts[unit] / total:.1f} %)" if unit in parts else "-" for unit in units
        )
        rows.append((name, *cells, _joules(total), found.result.technology))
    return SummaryTable(
        title="Energy by component",
        heads=("architecture", *units, "total", "cost table"),
        rows=tuple(rows),
        numbers=tuple(range(1, 2 + len(units))),
    )


def _unit(outcome: Outcome) -> SummaryTable:
    unit, accuracy = outcome.unit, outcome.accuracy
    rows = (
        ("rows simulated", f"{outcome.rows} of {outcome.row_length} scores, {outcome.clipped} out of range"),
        ("scores", f"{outcome.head}, as {unit.input_format}"),
        ("weights", str(unit.output_format)),
        (
            "latency, interval",
            f"{outcome.sidecar['latency_cycles']} cycles, {outcome.sidecar['interval_cycles']} cycle",
        ),
        ("max error against float64", f"{accuracy.max_error:.2e} (bound {unit.max_error:.2e})"),
        ("mean error", f"{accuracy.mean_error:.2e}"),
        ("max error, scores unquantized", f"{accuracy.max_error_with_input:.2e}"),
        ("row sum, largest distance from 1", f"{accuracy.row_sum_error:.2e}"),
        ("argmax agreement", f"{100 * accuracy.argmax_agreement:.1f} %"),
    )
    return SummaryTable(title="Softmax unit on real scores", heads=("quantity", "value"), rows=rows)


def _actions(outcome: Outcome) -> SummaryTable:
    rows = [
        (each.action, f"{each.count:,}", f"{each.energy_each_pj:.3f}", f"{each.energy_pj:,.0f}", each.basis)
        for each in outcome.energy
    ]
    rows.append(("all", "", "", f"{outcome.energy_pj:,.0f}", f"{outcome.technology}"))
    return SummaryTable(
        title="Softmax unit: counted actions and their energy",
        heads=("action", "count", "each, pJ", "energy, pJ", "priced as"),
        rows=tuple(rows),
        numbers=(1, 2, 3),
        note=f"rescale counts {SOFTMAX_ACTIONS['rescale']}.",
    )


def _checks(outcome: Outcome) -> SummaryTable:
    rows = [
        (each.name, each.expected, each.measured, "equal" if each.holds else f"DIFFERENT: {each.first_difference}")
        for each in outcome.comparisons
    ]
    return SummaryTable(
        title="Checks: prediction against simulated Verilog",
        heads=("check", "predicted", "measured", "verdict"),
        rows=tuple(rows),
        numbers=(1, 2),
    )


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in steps:
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / steps[-1][0]:.3g} {steps[-1][1]}"


def _seconds(value: float) -> str:
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))


def _bytes(value: float) -> str:
    return _scaled(value, ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")))


def _joules(value_pj: float) -> str:
    return _scaled(value_pj, ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ")))
