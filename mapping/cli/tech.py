"""``einrtl tech``: a cost table made from component models of the ``hwcomponents`` family."""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import TypeAdapter

from accel import spec
from accel.cli import console, json_option, print_json, table
from accel.cost import CostTable
from accel.files import write_text
from accel.technology import load_request
from mapping.technology import cost_table

__all__ = ["tech_command"]


@click.command(name="tech")
@click.argument("request", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the cost table to a .yaml file.")
@click.option("--python", help="A Python of at least 3.12 with hwcomponents.  [default: the one that runs]")
@json_option
def tech_command(request: Path, output: Path | None, python: str | None, as_json: bool) -> None:
    """Make a cost table from models of the hwcomponents family.

    REQUEST is a .yaml file that names a model for each component (docs/accounting.md).
    """
    found = cost_table(load_request(request), python)
    if output is not None:
        write_text(output, spec.dump(found))
    if as_json:
        print_json(TypeAdapter(CostTable).dump_python(found, mode="json"))
        return
    out = console()
    out.print(
        table(
            f"Cost table {found.name}",
            ["component", "action", "energy, pJ", "bits", "source"],
            [
                (component, action, f"{cost.energy_pj:.6g}", cost.per_bits or "", cost.source)
                for component, actions in found.components.items()
                for action, cost in actions.items()
            ],
            right=(2, 3),
        )
    )
    for part, area in found.areas.items():
        out.print(f"area of {part}: {area.area_um2:.6g} um2 ({area.source})")
    if output is not None:
        out.print(f"Wrote {output}")
