"""The tables of a run's outcome, for the terminal and for the report alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accel.softmax_unit import SOFTMAX_ACTIONS
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


def _side_by_side(title: str, corner: str, columns: Mapping[str, Mapping[str, str]], note: str = "") -> SummaryTable:
    """Return a table with a column for each name and a row for each quantity: it fits a narrow terminal."""
    quantities = list(dict.fromkeys(quantity for column in columns.values() for quantity in column))
    return SummaryTable(
        title=title,
        heads=(corner, *columns),
        rows=tuple((quantity, *(column.get(quantity, "-") for column in columns.values())) for quantity in quantities),
        numbers=tuple(range(1, 1 + len(columns))),
        note=note,
    )


def _cascades(outcome: Outcome) -> SummaryTable:
    present = [name for name in OPERATIONS if any(name in each.operations for each in outcome.cascades)]
    work = outcome.workload
    tiles = {f"{key} = {size}" for each in outcome.cascades for key, size in each.sizes.items() if key[-1].isdigit()}
    tile_note = f" Tiles of the schedule found: {', '.join(sorted(tiles))}." if tiles else ""
    return _side_by_side(
        f"Cascades: one head, {work.queries} queries, {work.keys} keys",
        "quantity",
        {
            each.name: {
                "passes over keys": str(each.analysis.passes),
                "live words a query": each.live,
                **{name: f"{each.operations.get(name, 0):,}" for name in present},
            }
            for each in outcome.cascades
        },
        f"Live words: whole fibers over the keys that must be kept or made again.{tile_note}",
    )


def _schedules(outcome: Outcome) -> SummaryTable:
    work = outcome.workload
    columns = {}
    for name, found in outcome.schedules.items():
        result = found.result
        floor = max(found.floors, key=lambda each: each.cycles)
        columns[name] = {
            "tiles": " ".join(f"{rank}={size}" for rank, size in found.schedule.tiles.items()),
            "cycles": f"{result.latency_cycles:,.0f}",
            "latency": _seconds(result.latency_s),
            **{f"array {each.array} busy": f"{100 * each.busy:.1f} %" for each in result.arrays},
            **{f"PEs of array {each.array} used": f"{100 * each.utilisation:.1f} %" for each in result.arrays},
            "DRAM traffic": _bytes(result.traffic_bytes),
            "energy": _joules(result.energy_pj),
            "limited by": result.limit,
            "floor of any schedule": f"{floor.cycles:,.0f} cycles ({floor.resource})",
            "proved bound of the search": f"{found.lower_bound_cycles:,.0f} cycles",
            "above that bound": f"{100 * found.gap:.1f} %",
        }
    accountings = sorted({found.result.accounting for found in outcome.schedules.values()})
    scheduled = next(iter(outcome.schedules.values())).schedule.cascade
    return _side_by_side(
        f"Schedules of {scheduled}: one layer, batch {work.batch}, {work.heads} heads",
        "quantity",
        columns,
        f"Accounting: {'; '.join(accountings)}.",
    )


def _energy(outcome: Outcome) -> SummaryTable:
    columns = {}
    for name, found in outcome.schedules.items():
        total = found.result.energy_pj
        parts = found.result.energy_pj_by_unit
        columns[name] = {
            **{unit: f"{_joules(energy)} ({100 * energy / total:.1f} %)" for unit, energy in parts.items()},
            "all": _joules(total),
            "cost table": found.result.technology,
        }
    return _side_by_side("Energy by component", "component", columns)


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
