"""What the compared units cost: committed samples of synthesis and of energy, and what their contracts say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel.cost import load_cost_table
from accel.fpga import Sample, load_samples
from rtl.registry import UNITS
from sim.comparison.activations import COARSE_GELU, activation_units
from sim.comparison.weights import weight_units

__all__ = ["TARGET", "UnitCost", "unit_costs"]

TARGET = "ecp5"


@dataclass(frozen=True, kw_only=True)
class UnitCost:
    """One unit with default parameters. What has no sample is None.

    Parameters
    ----------
    unit : str
        Unit and options, as ``einrtl synth`` takes them.
    family : str
        Softmax or an activation.
    max_error : float
        Bound of the contract.
    rom_bits : int
        Bits of all its tables.
    latency_cycles, interval_cycles : int
        As its contract says; a beat holds one number.
    lut_count, ff_count, dsp_count, block_ram_count : float or None
        From the committed samples of ECP5.
    fmax_mhz : float or None
        Highest clock after place and route.
    energy_low_pj, energy_high_pj : float or None
        Energy of one number in NanGate 45 nm cells, without and with all glitches, memories left out.
    """

    unit: str
    family: str
    max_error: float
    rom_bits: int
    latency_cycles: int
    interval_cycles: int
    lut_count: float | None
    ff_count: float | None
    dsp_count: float | None
    block_ram_count: float | None
    fmax_mhz: float | None
    energy_low_pj: float | None
    energy_high_pj: float | None


def unit_costs() -> tuple[UnitCost, ...]:
    """Return the costs of all units that are compared, softmax units first."""
    samples = {sample.command: sample for sample in load_samples(TARGET)}
    units = {name: UNITS[name].default for name in weight_units()} | activation_units()
    return tuple(_cost(command, unit, samples.get(command)) for command, unit in units.items())


def _cost(command: str, unit: Any, sample: Sample | None) -> UnitCost:
    contract = UNITS["gelu" if command == COARSE_GELU else command].contract(unit)
    counts = {} if sample is None else sample.counts
    return UnitCost(
        unit=command,
        family=contract.family,
        max_error=contract.max_error,
        rom_bits=sum(int(value) for name, value in contract.derived.items() if name.endswith("rom_bits")),
        latency_cycles=contract.latency_cycles,
        interval_cycles=contract.interval_cycles,
        lut_count=counts.get("lut_count"),
        ff_count=counts.get("ff_count"),
        dsp_count=counts.get("dsp_count"),
        block_ram_count=counts.get("block_ram_count"),
        fmax_mhz=None if sample is None else sample.fmax_mhz,
        energy_low_pj=_energy("low", command),
        energy_high_pj=_energy("high", command),
    )


def _energy(end: str, command: str) -> float | None:
    components = load_cost_table(f"nangate-45nm-{end}").components
    found = components.get(f"unit-{command}", {}).get("number")
    return None if found is None else found.energy_pj
