"""``einrtl price``: what a saved schedule or nest costs for a model's attention, or what a whole layer costs."""

from __future__ import annotations

from pathlib import Path

import click

from accel.cli import console, json_option, print_json
from accel.nest_result import NestResult
from accel.result import Result
from mapping.cli.map import tables
from mapping.cli.nest_tables import nest_tables
from mapping.cli.problem import SavedNest, SavedProblem, saved_arguments
from mapping.export import write_actions_csv
from mapping.model import price
from mapping.nest_price import price_nest

__all__ = ["price_command"]


@click.command(name="price")
@saved_arguments
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write every action to a .csv file.")
@json_option
def price_command(problem: SavedProblem | SavedNest, csv_file: Path | None, as_json: bool) -> None:
    """Price a saved schedule or nest.

    SCHEDULE is a .yaml file as ``einrtl map --save`` writes it, or a nest (docs/model.md); CONFIG the config.json of a
    Hugging Face model.
    """
    result: Result | NestResult
    if isinstance(problem, SavedNest):
        result = price_nest(problem.model, instances=problem.workload.instances)
    else:
        result = price(problem.cascade, problem.architecture, problem.schedule, problem.workload)
    if csv_file is not None:
        write_actions_csv(result, csv_file)
    if as_json:
        values = result.as_dict()
        if problem.window is not None:
            values["derived"]["window"] = problem.window.as_dict()
        print_json(values)
        return
    out = console()
    for each in tables(result) if isinstance(result, Result) else nest_tables(result):
        out.print(each)
        out.print()
    if problem.window is not None:
        out.print(str(problem.window))
    out.print(f"Accounting: {result.accounting}. Left out:")
    for item in result.left_out:
        out.print(f"  - {item}")
    if csv_file is not None:
        out.print(f"Wrote {csv_file}")
