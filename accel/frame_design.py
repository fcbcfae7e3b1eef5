"""Designs that compute a frame: one attention core, one linear unit, one memory port, and the order of their work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from accel.checks import check_ranges
from accel.errors import InputError
from accel.presets import load_preset, preset_names

__all__ = ["AttentionOrder", "ExpertOrder", "FrameDesign", "Prefetch", "design_names", "load_design"]


class AttentionOrder(StrEnum):
    """Which query row meets which key when (``accel.reordered_schedule``)."""

    REORDERED = "reordered"
    """One key meets all slots; keys pass again and again."""
    UNORDERED = "unordered"
    """A query row is finished, as many keys at a time as there are slots, before the next is loaded."""


class ExpertOrder(StrEnum):
    """What an expert layer goes through first."""

    BY_EXPERT = "by-expert"
    """Each expert that any token chose is loaded once and takes all its tokens."""
    BY_TOKEN = "by-token"
    """Each token loads the experts that it chose."""


class Prefetch(StrEnum):
    """Whose weights are loaded while the stage before still works; there are two banks of weights."""

    NONE = "none"
    EXPERTS = "experts"
    """Those of the next expert of a layer."""
    ALL = "all"
    """Those of any next linear layer."""


@dataclass(frozen=True, kw_only=True)
class FrameDesign:
    """A design that computes a frame stage by stage.

    Parameters
    ----------
    name, source : str
        What it is called, and where its numbers come from.
    clock_hz : float
        Clock.
    port_bits : int
        Width of the memory port, in each direction, per cycle.
    memory_efficiency : float
        Share of the cycles in which the port moves data; above 0, at most 1.
    feature_bits, weight_bits : int
        Width of a feature and of a weight; 2 to 32.
    tile : int
        T of the linear unit: T x T multiply-accumulates a cycle.
    slots, block : int
        Query rows in work (p), and features of each that meet a key in a cycle: p x block multiply-accumulates for
        scores, and as many for outputs.
    cores : int
        Attention cores, each with heads of its own.
    attention_order : AttentionOrder
        Order of queries and keys.
    fused : bool
        Whether scores stay on chip and both products of attention run at once, each with multipliers of its own. Else
        one set of multipliers is shared: first all scores, which go through the port, then all outputs.
    keys_on_chip : bool
        Whether K and V of a head are loaded once, into two banks. Else they stream through the port.
    activations_on_chip : bool
        Whether tokens stay on chip between stages. Else every stage reads and writes them through the port.
    expert_order : ExpertOrder
        Order of an expert layer.
    prefetch : Prefetch
        Which weights are loaded early.
    vector_lanes : int
        Features a cycle of normalisation and of residual additions.
    fill_cycles : int
        Cycles of every stage in which its pipeline fills and drains.
    measured_power_w : float, optional
        Power of the board as published; no model makes it.

    Raises
    ------
    InputError
        A number is out of range.
    """

    name: str
    source: str
    clock_hz: float
    port_bits: int
    feature_bits: int
    weight_bits: int
    tile: int
    slots: int
    block: int
    fused: bool
    keys_on_chip: bool
    activations_on_chip: bool
    vector_lanes: int
    attention_order: AttentionOrder = AttentionOrder.REORDERED
    expert_order: ExpertOrder = ExpertOrder.BY_EXPERT
    prefetch: Prefetch = Prefetch.ALL
    cores: int = 1
    memory_efficiency: float = 1.0
    fill_cycles: int = 0
    measured_power_w: float | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        bounds = {
            "port_bits": (8, 8192),
            "feature_bits": (2, 32),
            "weight_bits": (2, 32),
            "tile": (1, 256),
            "slots": (1, 256),
            "block": (1, 256),
            "cores": (1, 64),
            "vector_lanes": (1, 256),
            "fill_cycles": (0, 1_000_000),
        }
        check_ranges(self, ((name, *bound) for name, bound in bounds.items()))
        if not 0 < self.memory_efficiency <= 1:
            raise InputError(
                f"memory_efficiency must be above 0 and at most 1, not {self.memory_efficiency:g}",
                hint="1 is a port that never waits",
                field=("memory_efficiency",),
            )
        hints = {"clock_hz": "300e6 is 300 MHz", "measured_power_w": "leave it out if it was not measured"}
        for name, hint in hints.items():
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{name} must be above 0 and finite, not {value:g}", hint=hint, field=(name,))

    @property
    def port_bits_per_cycle(self) -> float:
        """Bits that the port moves in a cycle, in each direction."""
        return self.port_bits * self.memory_efficiency


def design_names() -> tuple[str, ...]:
    """Return the names of the packaged frame designs, sorted."""
    return preset_names("frame-design")


def load_design(name_or_path: str) -> FrameDesign:
    """Return a packaged frame design by name, or the one that a YAML file describes.

    Raises
    ------
    InputError
        None has the name, or the file breaks a rule.
    """
    return load_preset(FrameDesign, "frame-design", name_or_path, what="a frame design")
