"""What FPGA devices offer, each number with its public source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accel.errors import InputError
from accel.presets import load_preset, preset_names

__all__ = ["Device", "ExternalMemory", "Shortage", "device_names", "load_device", "shortages", "smallest_fitting"]

_NAMES = {
    "lut_count": "look-up tables",
    "ff_count": "flip-flops",
    "dsp_count": "multipliers",
    "block_ram_count": "block memories",
}


@dataclass(frozen=True, kw_only=True)
class ExternalMemory:
    """The memory beside a device on a named board.

    Parameters
    ----------
    kind : str
        What it is.
    port_bits : int
        Width of all its data ports together.
    bandwidth_bits_per_s : float
        Peak rate, one direction at a time.
    source : str
        Where the numbers come from.
    """

    kind: str
    port_bits: int
    bandwidth_bits_per_s: float
    source: str

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Device:
    """What an FPGA offers.

    Parameters
    ----------
    name, part : str
        As users call it, and as its maker does.
    target : str
        Synthesis target: ``ecp5``, ``ice40`` or ``xilinx``.
    lut_count, lut_inputs, ff_count, dsp_count : int
        Look-up tables and their inputs, flip-flops, hardware multipliers.
    dsp_operand_bits : tuple of int
        Widths of a multiplier's signed operands.
    block_ram_count, block_ram_bits, block_ram_port_bits : int
        Block memories, bits of each, and its widest port.
    large_ram_count, large_ram_bits, large_ram_port_bits : int
        UltraRAM or single-port RAM blocks; 0 if there are none.
    typical_clock_hz : float
        A clock that designs of this kind reach on it.
    sources : mapping of str to str
        Where ``resources`` and ``clock`` come from.
    memory : ExternalMemory, optional
        Off-chip memory, where a board is named.

    Raises
    ------
    InputError
        A count is negative, or a source is missing.
    """

    name: str
    part: str
    target: str
    lut_count: int
    lut_inputs: int
    ff_count: int
    dsp_count: int
    dsp_operand_bits: tuple[int, int]
    block_ram_count: int
    block_ram_bits: int
    block_ram_port_bits: int
    typical_clock_hz: float
    sources: Mapping[str, str]
    large_ram_count: int = 0
    large_ram_bits: int = 0
    large_ram_port_bits: int = 0
    memory: ExternalMemory | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check counts and sources."""
        for field in ("lut_count", "ff_count", "dsp_count", "block_ram_count", "large_ram_count"):
            if getattr(self, field) < 0:
                raise InputError(
                    f"{field} must be 0 or more, not {getattr(self, field)}",
                    hint="take it from the data sheet",
                    field=(field,),
                )
        for what in ("resources", "clock"):
            if not self.sources.get(what, "").strip():
                raise InputError(
                    f"sources must name where the {what} come from", hint=f"add {what}", field=("sources",)
                )

    @property
    def budget(self) -> Mapping[str, float]:
        """What the device offers of each quantity that synthesis counts."""
        return {
            "lut_count": self.lut_count,
            "ff_count": self.ff_count,
            "dsp_count": self.dsp_count,
            "block_ram_count": self.block_ram_count,
        }


def device_names() -> tuple[str, ...]:
    """Return the names of the packaged devices, sorted."""
    return preset_names("device")


def load_device(name_or_path: str) -> Device:
    """Return a packaged device by name, or the one that a YAML file describes.

    Raises
    ------
    InputError
        No device has the name, or the file breaks a rule.
    """
    return load_preset(Device, "device", name_or_path, what="a device")


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A resource of which a design needs more than a device has.

    Parameters
    ----------
    quantity : str
        One of ``accel.fpga.QUANTITIES``.
    needed, available : float
        Counts.
    """

    quantity: str
    needed: float
    available: float

    def __str__(self) -> str:
        """Return it as messages tell it."""
        excess = self.needed - self.available
        return f"{self.needed:,.0f} of {self.available:,.0f} {_NAMES[self.quantity]} ({excess:,.0f} too many)"


def shortages(device: Device, counts: Mapping[str, float]) -> tuple[Shortage, ...]:
    """Return of which resources ``counts`` takes more than the device has."""
    return tuple(
        Shortage(quantity=name, needed=counts[name], available=available)
        for name, available in device.budget.items()
        if counts[name] > available
    )


def smallest_fitting(target: str, counts: Mapping[str, float]) -> str | None:
    """Return the packaged device of an FPGA family with the fewest look-up tables in which ``counts`` fit, if any."""
    devices = [load_device(name) for name in device_names()]
    fitting = [each for each in devices if each.target == target and not shortages(each, counts)]
    return min(fitting, key=lambda each: (each.lut_count, each.name)).name if fitting else None
