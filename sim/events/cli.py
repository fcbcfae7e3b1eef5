"""``einrtl events``: executes a saved schedule event by event and holds it against the model and the cascade."""

from __future__ import annotations

import dataclasses
import math

import click
import numpy as np

from accel.cli import EXIT_COMPARISON_FAILED, console, json_option, print_json, table
from accel.errors import InputError
from mapping.cli.problem import SavedProblem, problem_arguments
from mapping.model import price
from sim.events.machine import execute, random_inputs
from sim.events.report import Execution, differences

__all__ = ["events_command"]

MOST_POINTS = 20_000_000
"""Points that are executed at most: some minutes."""

TOLERANCE = 1e-9
"""Largest error of an output, values being of order one: sums in another order differ by rounding alone."""


@click.command(name="events")
@problem_arguments
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random inputs.")
@json_option
@click.pass_context
def events_command(context: click.Context, problem: SavedProblem, seed: int, as_json: bool) -> None:
    """Execute a saved schedule tile by tile, with random values.

    SCHEDULE is a .yaml file as ``einrtl map --save`` writes it, CONFIG the config.json of a Hugging Face model, whose
    attention --length makes small enough. Exits with 1 if cycles, counts or values differ from the model and the
    cascade.
    """
    result = price(problem.cascade, problem.architecture, problem.schedule, problem.workload)
    _refuse_large(problem)
    inputs = random_inputs(problem.cascade, problem.schedule, problem.workload, seed)
    execution = execute(problem.cascade, problem.architecture, problem.schedule, problem.workload, inputs)
    error = _worst_error(problem, execution, inputs)
    wrong = differences(execution, result)
    if as_json:
        values = dataclasses.asdict(execution)
        del values["outputs"]
        values["actions"] = [
            {"unit": unit, "component": component, "action": action, "tensor": tensor, "einsum": einsum, "count": count}
            for (unit, component, action, tensor, einsum), count in execution.actions.items()
        ]
        window = {} if problem.window is None else {"window": problem.window.as_dict()}
        print_json({**values, **window, "differences": wrong, "worst_error": error})
    else:
        _show(execution, wrong, error)
        if problem.window is not None:
            console().print(str(problem.window))
    if wrong or not error <= TOLERANCE:
        context.exit(EXIT_COMPARISON_FAILED)


def _refuse_large(problem: SavedProblem) -> None:
    sizes = problem.workload.sizes
    points = problem.workload.instances * sizes["P"] * sizes["M"] * (sizes["E"] + sizes["F"])
    if points > MOST_POINTS:
        length = math.isqrt(problem.workload.queries * problem.workload.keys * MOST_POINTS // points)
        raise InputError(
            f"an execution by events must have at most {MOST_POINTS:,} multiplications, not {points:,}",
            hint=f"use --length {max(length, 1)}",
        )


def _worst_error(problem: SavedProblem, execution: Execution, inputs: dict[str, np.ndarray]) -> float:
    """Return the largest difference of an output to the cascade's own evaluation with one key tile."""
    ranks = problem.schedule.plan.splits
    tiles = {parts[-1].upper(): problem.workload.sizes[rank.upper()] for rank, parts in ranks.items()}
    known = problem.workload.parameters | tiles
    symbols = {symbol: size for symbol, size in known.items() if symbol in problem.cascade.symbols}
    worst = 0.0
    for instance in range(problem.workload.instances):
        expected = problem.cascade.evaluate({name: array[instance] for name, array in inputs.items()}, symbols)
        for name, values in expected.items():
            ours = execution.outputs[name][instance]
            if not np.array_equal(np.isnan(ours), np.isnan(values)):  # a query to which a filter leaves no key is NaN
                return math.nan
            worst = max(worst, float(np.nanmax(np.abs(ours - values), initial=0.0)))
    return worst


def _show(execution: Execution, wrong: list[str], error: float) -> None:
    out = console()
    out.print(
        table(
            "Executed",
            ["quantity", "value"],
            [
                ("epochs", f"{execution.epochs:,}"),
                ("cycles", f"{execution.compute_cycles:,}"),
                ("latency", f"{execution.latency_cycles:,.0f} cycles"),
                ("points", f"{sum(execution.points.values()):,}"),
                ("actions", f"{sum(execution.actions.values()):,} of {len(execution.actions)} kinds"),
                ("buffer, most", ", ".join(f"{name} {bits}" for name, bits in execution.buffer_peak_bits.items())),
                *(
                    (f"level {level}, most", ", ".join(f"{name} {bits}" for name, bits in parts.items()) or "nothing")
                    for level, parts in execution.level_peak_bits.items()
                ),
                ("registers, most", ", ".join(f"{name} {held}" for name, held in execution.registers_peak.items())),
                ("largest error of an output", f"{error:.3g}"),
            ],
        )
    )
    if wrong:
        out.print(f"\n{len(wrong)} differences from the model:")
        for line in wrong:
            out.print(f"  - {line}")
    else:
        out.print("\nEvery cycle and every count is that of the model.")
