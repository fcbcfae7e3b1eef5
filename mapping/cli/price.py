"""``einrtl price``: what a saved schedule costs for a model's attention."""

from __future__ import annotations

from pathlib import Path

import click

from accel.cli import console, json_option, print_json
from mapping.cli.map import tables
from mapping.cli.problem import SavedProblem, problem_arguments
from mapping.export import write_actions_csv
from mapping.model import price

__all__ = ["price_command"]


@click.command(name="price")
@problem_arguments
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write every action to a .csv file.")
@json_option
def price_command(problem: SavedProblem, csv_file: Path | None, as_json: bool) -> None:
    """Price a saved schedule.

    SCHEDULE is a .yaml file as ``einrtl map --save`` writes it, CONFIG the config.json of a Hugging Face model.
    """
    result = price(problem.cascade, problem.architecture, problem.schedule, problem.workload)
    if csv_file is not None:
        write_actions_csv(result, csv_file)
    if as_json:
        print_json(result.as_dict())
        return
    out = console()
    for each in tables(result):
        out.print(each)
        out.print()
    out.print(f"Accounting: {result.accounting}. Left out:")
    for item in result.left_out:
        out.print(f"  - {item}")
    if csv_file is not None:
        out.print(f"Wrote {csv_file}")
