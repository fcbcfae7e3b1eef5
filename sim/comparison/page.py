"""The comparison as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sim.comparison.activations import ActivationFigures
from sim.comparison.costs import UnitCost
from sim.comparison.models import DELTA_TABLE_ROM_BITS
from sim.comparison.published import PublishedFigure
from sim.comparison.weights import WeightFigures
from sim.comparison.wishes import Wish

__all__ = ["Comparison", "activation_rows", "cost_rows", "length_section", "page", "weight_rows", "wish_rows"]

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that the page shows.

    Parameters
    ----------
    command : str
        That makes the page.
    rows, seed : int
        Of the random scores.
    weights : tuple of WeightFigures
        Set by set.
    activations, costs, published, wishes : tuple
        The other tables.
    """

    command: str
    rows: int
    seed: int
    weights: tuple[WeightFigures, ...]
    activations: tuple[ActivationFigures, ...]
    costs: tuple[UnitCost, ...]
    published: tuple[PublishedFigure, ...]
    wishes: tuple[Wish, ...]


def _small(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.1e}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def wish_rows(wishes: Iterable[Wish]) -> Table:
    """Return heads and rows of the wishes."""
    state = {True: "met", False: "not met", None: "unknown"}
    return ("wish", "wanted", "found", ""), [(each.wish, each.wanted, each.found, state[each.met]) for each in wishes]


def weight_rows(figures: Iterable[WeightFigures]) -> Table:
    """Return heads and rows of the softmax units."""
    heads = (
        *(
            "unit",
            "scores",
            "max error",
            "MAE",
            "max error, real scores",
            "row sum off by",
            "argmax agreement",
            "KL (nats)",
        ),
    )
    return heads, [
        (
            each.unit,
            each.scores,
            _small(each.max_error),
            _small(each.mean_error),
            _small(each.max_error_with_input),
            _small(each.row_sum_error),
            "" if each.argmax_agreement is None else f"{100 * each.argmax_agreement:.1f} %",
            _small(each.kl_nats),
        )
        for each in figures
    ]


def activation_rows(figures: Iterable[ActivationFigures], costs: Iterable[UnitCost]) -> Table:
    """Return heads and rows of the activation units."""
    rom = {each.unit: each.rom_bits for each in costs}
    heads = ("function", "unit", "max error", "MAE", "mean error, normal inputs", "ROM bits")
    return heads, [
        (
            each.function,
            each.unit,
            _small(each.max_error),
            _small(each.mean_error),
            _small(each.normal_error),
            str(DELTA_TABLE_ROM_BITS if each.theirs else rom[each.unit]),
        )
        for each in figures
    ]


def cost_rows(costs: Iterable[UnitCost]) -> Table:
    """Return heads and rows of the costs."""
    heads = (
        *("unit", "bound of the error", "LUT", "FF", "DSP", "block RAM", "ROM bits", "Fmax (MHz)"),
        *("latency (cycles)", "cycles per row, N = 1024", "energy per number (pJ)"),
    )
    return heads, [
        (
            each.unit,
            _small(each.max_error),
            _count(each.lut_count),
            _count(each.ff_count),
            _count(each.dsp_count),
            _count(each.block_ram_count),
            str(each.rom_bits),
            "" if each.fmax_mhz is None else f"{each.fmax_mhz:.1f}",
            str(each.latency_cycles),
            str(1024 * each.interval_cycles) if each.family == "softmax" else "",
            ""
            if each.energy_low_pj is None or each.energy_high_pj is None
            else f"{each.energy_low_pj:.1f} to {each.energy_high_pj:.1f}",
        )
        for each in costs
    ]


def length_section(figures: Sequence[WeightFigures]) -> str:
    """Return the section of one set of random rows or of the recorded ones, from its figures."""
    first = figures[0]
    recorded = not first.scores.startswith("sd ")
    title = f"### Recorded scores: {first.scores}" if recorded else f"### Random scores, N = {first.length}"
    return f"{title}\n\n{first.rows} rows of {first.length} scores.\n\n{_markdown(weight_rows(figures))}"


def page(found: Comparison, pictures: Sequence[tuple[str, str]]) -> str:
    """Return the page.

    Parameters
    ----------
    found : Comparison
        All tables.
    pictures : sequence of (str, str)
        Title and path of each picture, as the page links it.
    """
    groups: dict[tuple[bool, str, int], list[WeightFigures]] = {}
    for each in found.weights:
        recorded = not each.scores.startswith("sd ")
        groups.setdefault((recorded, each.scores if recorded else "", each.length), []).append(each)
    shown = {title: f"![{title}]({path})" for title, path in pictures}
    parts = [
        _HEAD.format(command=found.command, rows=found.rows, seed=found.seed),
        _markdown(wish_rows(found.wishes)),
        _COST,
        _markdown(cost_rows(found.costs)),
        *shown.values(),
        _WEIGHTS.format(rows=found.rows, seed=found.seed),
        *(length_section(group) for group in groups.values()),
        _ACTIVATIONS,
        _markdown(activation_rows(found.activations, found.costs)),
        _PUBLISHED,
        _markdown(
            (
                ("unit", "computes", "figure", "published", "source"),
                [(each.unit, each.kind, each.figure, each.value, each.source) for each in found.published],
            )
        ),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _markdown(table: Table) -> str:
    heads, rows = table
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


_HEAD = """
# Units compared

All softmax and activation units on the same inputs. This page is written by

```sh
{command}
```

Errors are those of the golden models, which the hardware equals bit by bit. An empty cell says that there is no
figure, or that it does not apply.

## What was wanted
"""

_COST = """
The softmax rows are random scores as below, 1024 for each deviation.

## Cost

Default parameters, one lane, softmax rows of up to 256 scores. Counts and clocks are the committed samples for ECP5,
speed grade 6 ([Synthesis](synthesis.md) says how they are made); a table that yosys turns into logic is in both LUT and
ROM bits. Rows follow one another without a gap, so a row takes its number of beats; latency is from a row's last beat
to its first result. Energy is in NanGate 45 nm cells, from no glitches to all, memories left out. Units without a table
have no ROM bits.
"""

_WEIGHTS = """
## Softmax units

Normal scores of mean 0 and deviations (sd) 1, 2 and 4, {rows} rows each, seed {seed}. Units have their default
formats and are built for rows of that length. What the columns mean:

- max error, MAE: distance of a weight from the exact function of the scores as the input format of the unit holds them.
- max error, real scores: distance from the softmax of the scores before they were rounded. `integer-softmax` takes
  8 bits, -4 to 4 in powers of two: wider scores saturate, which a user avoids by the scale of the scores.
- row sum off by: largest distance of a row's sum from that of the exact weights, 1 for a softmax.
- argmax agreement: rows whose largest weight stands where the exact one is largest; equal weights agree.
- KL: mean divergence of the weights, divided by their sum, from the softmax of the real scores.

`softermax` and `integer-softmax` count in powers of two and are given the scores times log2(e). Of `top-k-softmax`
(k = 8) the kept weights are compared with their exact ones. `log-sum-exp` gives a number for a row, `softpick`,
`sigmoid-attention` and `relu-attention` compute other functions than softmax; each is compared with its own (bias
-ln N, divisor N). `block-skip` gives exact flags and no weights. Lines marked "(model)" are schemes of others, modelled
in real numbers from their papers: what is not the point of a scheme is exact in them, and none is the authors' code.
"""

_ACTIVATIONS = """
## Activation units

All 65536 inputs of s16f12, results in the default formats. "Normal inputs" have mean 0 and deviation 1. A function's
units stand together, the nearest first. Those without ROM are published stand-ins of one formula.
"""

_PUBLISHED = """
## Published by others

As published. Set-ups, baselines and technologies differ: these figures compare neither with ours nor with one another.
"""
