"""Cost tables: the energy of each action of each component in one technology, every number with its source."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accel.errors import InputError, did_you_mean
from accel.presets import load_preset, preset_names

__all__ = ["ActionCost", "AreaCost", "CostTable", "cost_table_names", "load_cost_table"]


@dataclass(frozen=True, kw_only=True)
class ActionCost:
    """What one action costs.

    Parameters
    ----------
    energy_pj : float
        Dynamic energy of one action, pJ; not negative.
    source : str
        Where the number comes from: paper, tool and version, and how it was scaled.
    per_bits : int, optional
        Bits that one action moves; present on the actions of memories and absent on those of operators.

    Raises
    ------
    InputError
        The energy is negative or not finite, the width is not positive, or no source is named.
    """

    energy_pj: float
    source: str
    per_bits: int | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if not (math.isfinite(self.energy_pj) and self.energy_pj >= 0):
            raise InputError(
                f"energy_pj must be a finite number of picojoules, 0 or more, not {self.energy_pj}",
                hint="give the energy of one action in pJ",
                field=("energy_pj",),
            )
        if self.per_bits is not None and self.per_bits < 1:
            raise InputError(
                f"per_bits must be at least 1, not {self.per_bits}",
                hint="give the bits that one access moves",
                field=("per_bits",),
            )
        if not self.source.strip():
            raise InputError("source must name where the number comes from, but is empty", field=("source",))


@dataclass(frozen=True, kw_only=True)
class AreaCost:
    """The area of one part.

    Parameters
    ----------
    area_um2 : float
        Area, um2; not negative.
    source : str
        Where the number comes from.
    size_bits : int, optional
        Of a memory: the capacity for which it holds, and for no other.

    Raises
    ------
    InputError
        The area is negative or not finite, the capacity is below 1, or no source is named.
    """

    area_um2: float
    source: str
    size_bits: int | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if not (math.isfinite(self.area_um2) and self.area_um2 >= 0):
            raise InputError(
                f"area_um2 must be a finite area in square micrometres, 0 or more, not {self.area_um2}",
                hint="give the area of one part in um2",
                field=("area_um2",),
            )
        if self.size_bits is not None and self.size_bits < 1:
            raise InputError(f"size_bits must be at least 1, not {self.size_bits}", field=("size_bits",))
        if not self.source.strip():
            raise InputError("source must name where the number comes from, but is empty", field=("source",))


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """The energy of every action of every component, and the area of parts where it is known.

    A component or an action without an entry is an error where it is asked for, never a silent zero.

    Parameters
    ----------
    name : str
        Name that architectures refer to.
    description : str
        What the table stands for and what it leaves out.
    components : mapping of str to mapping of str to ActionCost
        Component, then action.
    areas : mapping of str to AreaCost
        Part to its area; parts of a PE and memories.

    Raises
    ------
    InputError
        The table has no component, or a component no action.
    """

    name: str
    description: str
    components: Mapping[str, Mapping[str, ActionCost]]
    areas: Mapping[str, AreaCost] = dataclasses.field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that there is something to look up."""
        if not self.components:
            raise InputError("components must hold at least one component", field=("components",))
        for component, actions in self.components.items():
            if not actions:
                raise InputError(
                    f"component {component!r} must have at least one action",
                    hint="add an action or remove the component",
                    field=("components", component),
                )

    def entry(self, component: str, action: str) -> ActionCost:
        """Return the entry of an action.

        Raises
        ------
        InputError
            The table has no such component, or the component no such action.
        """
        if component not in self.components:
            raise InputError(
                f"cost table {self.name!r} must have an entry for component {component!r}",
                hint=did_you_mean(component, self.components),
            )
        actions = self.components[component]
        if action not in actions:
            raise InputError(
                f"cost table {self.name!r} must have an entry for action {action!r} of component {component!r}",
                hint=did_you_mean(action, actions),
            )
        return actions[action]

    def energy_pj(self, component: str, action: str, *, bits: int | None = None) -> float:
        """Return the energy of one action, pJ.

        Parameters
        ----------
        component, action : str
            The entry.
        bits : int, optional
            Width of the access; the entry's energy is scaled in proportion to it. By default the entry's own width.

        Raises
        ------
        InputError
            There is no such entry, or a width is given for an action that moves no bits.
        """
        entry = self.entry(component, action)
        if bits is None or bits == entry.per_bits:
            return entry.energy_pj
        if entry.per_bits is None:
            raise InputError(
                f"action {action!r} of component {component!r} in cost table {self.name!r} must state per_bits "
                f"to be charged for an access of {bits} bits",
                hint="add per_bits to the entry",
            )
        return entry.energy_pj * bits / entry.per_bits

    def area_um2(self, part: str, *, size_bits: int | None = None) -> float:
        """Return the area of one part, um2.

        Parameters
        ----------
        part : str
            The entry.
        size_bits : int, optional
            Capacity of the memory that is asked for.

        Raises
        ------
        InputError
            The table has no area for it, or only for another capacity.
        """
        if part not in self.areas:
            raise InputError(
                f"cost table {self.name!r} must have an area for part {part!r}", hint=did_you_mean(part, self.areas)
            )
        entry = self.areas[part]
        if size_bits is not None and entry.size_bits not in (None, size_bits):
            raise InputError(
                f"cost table {self.name!r} must have an area of {part!r} for {size_bits} bits, but has it for "
                f"{entry.size_bits} only",
                hint="add an entry for that capacity and name it as the component",
            )
        return entry.area_um2


def load_cost_table(name_or_path: str | Path) -> CostTable:
    """Return a packaged cost table by name, or the one of a file; raises ``InputError`` as ``load_preset``."""
    return load_preset(CostTable, "tech", name_or_path, what="a cost table")


def cost_table_names() -> tuple[str, ...]:
    """Return the names of the packaged cost tables."""
    return preset_names("tech")
