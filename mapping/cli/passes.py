"""The command ``einrtl passes``: how many passes a cascade needs, why, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from accel.cascade import Cascade, Einsum, load_cascade
from accel.cli import console, json_option, print_json, table
from accel.errors import InputError, did_you_mean
from mapping.graph import pass_graph
from mapping.passes import Footprint, PassAnalysis, default_rank
from mapping.passes import passes as analyse
from mapping.traffic import STRATEGIES, TrafficPlan, traffic_plans

__all__ = ["passes"]


@click.command()
@click.argument("name_or_file")
@click.option("--rank", metavar="RANK", help="Rank of the fibers; without it the one with the most passes.")
@click.option(
    "--size",
    "size_texts",
    metavar="SYMBOL=NUMBER",
    multiple=True,
    help="Size of a rank or tile, such as M=4096; repeat it, or join several by commas. Then numbers replace formulas.",
)
@click.option(
    "--graph", "graph_file", metavar="FILE", help="Draw the dependency graph, coloured by pass (.svg, .png or .dot)."
)
@click.option("--traffic", "show_traffic", is_flag=True, help="Show the traffic to memory as a function of the buffer.")
@json_option
def passes(
    name_or_file: str,
    rank: str | None,
    size_texts: tuple[str, ...],
    graph_file: str | None,
    show_traffic: bool,
    as_json: bool,
) -> None:
    """Show the passes of a cascade: NAME_OR_FILE is a packaged cascade or a .ein file.

    Prints the pass in which each Einsum runs, why each further pass is needed whatever the mapping, how much must stay
    live, and which Einsums may be fused.
    """
    cascade = load_cascade(name_or_file)
    sizes = _sizes(cascade, size_texts)
    analysis = analyse(cascade, rank or default_rank(cascade))
    if graph_file is not None:
        from mapping.plot_graph import draw_graph  # matplotlib takes long to import

        draw_graph(pass_graph(cascade, analysis.rank), graph_file)
    plans = traffic_plans(cascade, analysis.rank) if show_traffic else ()
    if as_json:
        result = _as_dict(analysis, sizes)
        if show_traffic:
            result["traffic"] = [_plan_as_dict(plan, sizes) for plan in plans]
        print_json(result)
        return
    _show(analysis, sizes, console())
    if show_traffic:
        _show_traffic(plans, sizes, console())
    if graph_file is not None:
        click.echo(f"\ngraph drawn to {graph_file}")


def _sizes(cascade: Cascade, texts: Iterable[str]) -> dict[str, int] | None:
    """Return the completed sizes that the options give; None without options."""
    given: dict[str, int] = {}
    for text in (part for option in texts for part in option.split(",")):
        symbol, equals, number = text.partition("=")
        if not equals or not number.strip().isdecimal():
            raise InputError(f"--size must be SYMBOL=NUMBER, not {text!r}", hint="write it as in --size M=4096")
        symbol = symbol.strip()
        if symbol not in cascade.symbols:
            hint = did_you_mean(symbol, cascade.symbols)
            raise InputError(f"--size {text}: cascade {cascade.name} has no size {symbol!r}", hint=hint)
        if symbol in given:
            raise InputError(f"--size must give {symbol} once, not twice", hint="remove one of the two")
        given[symbol] = int(number)
    return cascade.sizes(given) if given else None


def _operations(einsum: Einsum) -> dict[str, int]:
    operations = dict(einsum.map_operations)
    if einsum.reduction is not None:
        operations[einsum.reduction.operator] = operations.get(einsum.reduction.operator, 0) + 1
    return operations


def _as_dict(analysis: PassAnalysis, sizes: Mapping[str, int] | None) -> dict[str, Any]:
    cascade = analysis.cascade
    result = analysis.as_dict(sizes)
    for entry in result["einsums"]:
        einsum = cascade.einsum(entry["name"])
        entry["text"] = str(einsum)
        entry["ranks"] = list(einsum.ranks)
        entry["operations_per_point"] = _operations(einsum)
        entry["points"] = "*".join(cascade.merged_symbols(einsum.ranks)) or "1"
        if sizes is not None:
            entry["operations"] = cascade.operation_counts(sizes)[entry["name"]]
    if sizes is not None:
        result["sizes"] = dict(sizes)
    return result


def _show(analysis: PassAnalysis, sizes: Mapping[str, int] | None, out: Console) -> None:
    cascade = analysis.cascade
    if cascade.description:
        out.print(cascade.description, style="dim", markup=False)
    noun = "pass" if analysis.passes == 1 else "passes"
    tensors = ", ".join(f"{name} {number}" for name, number in analysis.tensor_passes.items())
    out.print(
        f"\n[bold]{cascade.name}: {analysis.passes} {noun} over {analysis.rank}[/bold]"
        + (f"  (passes over each input: {tensors})" if tensors else "")
        + "\n"
    )
    out.print(_einsum_table(analysis, sizes))
    _show_boundaries(analysis, out)
    out.print(_footprint_table(analysis, sizes))
    _show_live(analysis, out)
    out.print("\n[bold]May be fused over " + analysis.rank + "[/bold]")
    for group in analysis.groups:
        when = f"{'after' if group.waits else 'in'} pass {group.pass_number}" if group.pass_number else "at any time"
        out.print(f"  {when + ':':<13} {', '.join(group.einsums)}", markup=False)


_BUFFER_STEPS = 12


def _buffers(plans: Iterable[TrafficPlan], sizes: Mapping[str, int]) -> list[int]:
    """Return powers of two from the smallest buffer that works to the first that changes nothing more."""
    known = list(plans)
    least = min(plan.least_buffer_words(sizes) for plan in known)
    most = max(plan.full_buffer_words(sizes) for plan in known)
    first, last = (least - 1).bit_length(), (most - 1).bit_length()
    return [1 << power for power in range(first, min(last, first + _BUFFER_STEPS) + 1)]


def _plan_as_dict(plan: TrafficPlan, sizes: Mapping[str, int] | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "strategy": plan.strategy,
        "rows": list(plan.rows),
        "words": plan.formula,
        "rows_of_a_block": plan.rows_formula,
    }
    if sizes is not None:
        result["points"] = [
            {"buffer_words": words, "rows_of_a_block": plan.block_rows(sizes, words), "words": plan.words(sizes, words)}
            for words in _buffers([plan], sizes)
        ]
    return result


def _show_traffic(plans: tuple[TrafficPlan, ...], sizes: Mapping[str, int] | None, out: Console) -> None:
    out.print("\n[bold]Traffic to memory[/bold] in words, with a buffer of B words and R rows to a block")
    for plan in plans:
        reason = STRATEGIES[plan.strategy] if len(plans) > 1 else "no pass hands a fiber to another"
        out.print(f"  {plan.strategy} ({reason}):", markup=False)
        rows = f"   R = {plan.rows_formula}" if plan.rows else ""
        out.print(f"    {plan.formula}{rows}", markup=False)
    if sizes is None:
        out.print("  Sizes (--size) put numbers to it.")
        return
    rows_of_table = []
    for words in _buffers(plans, sizes):
        moved = [plan.words(sizes, words) for plan in plans]
        best = min((each, plan.strategy) for each, plan in zip(moved, plans, strict=True) if each is not None)
        rows_of_table.append([f"{words:,}", *("" if each is None else f"{each:,}" for each in moved), best[1]])
    heads = ["Buffer words", *(plan.strategy for plan in plans), "Least"]
    out.print(table("Words moved", heads, rows_of_table, right=range(len(plans) + 1)))


def _einsum_table(analysis: PassAnalysis, sizes: Mapping[str, int] | None) -> Any:
    cascade = analysis.cascade
    counts = cascade.operation_counts(sizes) if sizes is not None else None
    rows = []
    for place in analysis.einsums:
        einsum = cascade.einsum(place.name)
        points = "*".join(cascade.merged_symbols(einsum.ranks)) or "1"
        if einsum.conditions:
            points += " filtered"
        operations = _operations(einsum)
        each = ", ".join(name if count == 1 else f"{count} {name}" for name, count in operations.items()) or "none"
        total = _times(sum(operations.values()), points)
        if counts is not None:
            total = f"{sum(counts[place.name].values()):,}"
        rows.append((escape(str(einsum)), str(place), " ".join(einsum.ranks), each, points, total))
    heads = ("Einsum", "Pass", "Ranks", "Operations at a point", "Points", "Operations in all")
    return table("Einsums", heads, rows, right=(5,))


def _times(number: int, points: str) -> str:
    if number == 0:
        return "0"
    return points if number == 1 else f"{number}*{points}" if points != "1" else str(number)


def _show_boundaries(analysis: PassAnalysis, out: Console) -> None:
    if not analysis.boundaries:
        out.print(f"\nNo element of {analysis.rank} has to be visited again after all others: one pass is enough.\n")
        return
    for boundary in analysis.boundaries:
        out.print(f"\n[bold]Why pass {boundary.opens}[/bold]  ({' -> '.join(boundary.chain)})")
        for reason in boundary.reasons:
            out.print(f"  {reason}", markup=False)
    out.print()


def _footprint_table(analysis: PassAnalysis, sizes: Mapping[str, int] | None) -> Any:
    heads = ["Tensor", "Live at once", "Words a fiber", "Fibers", "Kept for"]
    rows = []
    for each in analysis.footprints:
        fibers = "*".join(rank.upper() for rank in each.per) or "1"
        row = [each.tensor, _extent(each), each.formula, fibers, each.reader]
        if sizes is not None:
            row[2:4] = [f"{each.words(sizes):,}", f"{each.fibers(sizes):,}"]
        rows.append(row)
    right = (2, 3) if sizes is not None else ()
    return table(f"Live footprint over {analysis.rank}", heads, rows, right=right)


def _extent(footprint: Footprint) -> str:
    return {"element": "one element", "tile": "one tile", "fiber": "the whole fiber"}[footprint.extent]


def _show_live(analysis: PassAnalysis, out: Console) -> None:
    if not analysis.live:
        out.print(f"Nothing that grows with {analysis.rank.upper()} has to be kept: O(1) in {analysis.rank.upper()}.")
        return
    parts = []
    for each in analysis.live:
        per = f" per {','.join(each.per)}" if each.per else ""
        parts.append(f"{each.tensor} O({each.formula}){per}")
    out.print(f"To be kept, reloaded or computed again: {'; '.join(parts)}.", markup=False)
