"""The attention file: one description from which ``map``, ``rtl`` and ``sim`` take a workload and a core for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from accel import spec
from accel.arch import load_architecture
from accel.attention_array import CASCADE, AttentionArray, Job, check_job, with_stalls
from accel.errors import InputError
from accel.numerics import FixedPoint
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit
from accel.schedule import Schedule, load_schedule, load_template
from accel.workload import Workload

__all__ = ["ArrayCore", "AttentionFile", "load_attention_file"]

_TEMPLATE = "spatial-array-1pass"


@dataclass(frozen=True, kw_only=True)
class ArrayCore:
    """A spatial array, as far as architecture and schedule do not say it already.

    Parameters
    ----------
    architecture : str
        Name or file; a file relative to the attention file.
    schedule : str, optional
        Schedule file, as ``einrtl map --save`` writes it; without one, the plan of the template
        ``spatial-array-1pass`` with tiles of the size of the array.
    max_length : int
        Most queries, and most keys, of a head.
    query_format, key_format, value_format, output_format : FixedPoint
        Of Q (scaled by 1 / sqrt(E)), K, V and AV.
    weight_fraction_bits : int
        Fraction bits of a weight.
    """

    architecture: str
    schedule: str | None = None
    max_length: int
    query_format: FixedPoint
    key_format: FixedPoint
    value_format: FixedPoint
    output_format: FixedPoint
    weight_fraction_bits: int = 15

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class AttentionFile:
    """A workload, and the core that does it.

    Parameters
    ----------
    name : str
        What reports call it.
    workload : Workload
        Sizes.
    causal : bool
        Whether query p sees keys 0 to p only.
    array : ArrayCore, optional
        A spatial array.
    reordered : ReorderedUnit, optional
        A reordered attention unit; exactly one of the two is given.
    technologies : tuple of str
        Names or files of the cost tables that price the actions, the first by default.
    seed : int
        Of the random Q, K and V of a simulation, 0 or more.

    Raises
    ------
    InputError
        There is no core or more than one, no table, a negative seed, or a core that the workload does not fit.
    """

    name: str
    workload: Workload
    causal: bool = False
    array: ArrayCore | None = None
    reordered: ReorderedUnit | None = None
    technologies: tuple[str, ...] = ("open-45nm", "fpga-scaled-45nm")
    seed: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the parts against each other."""
        if (self.array is None) == (self.reordered is None):
            raise InputError(
                f"one core must be given, array or reordered, not {'none' if self.array is None else 'both'}",
                hint="add array: with its architecture" if self.array is None else "remove one of them",
                field=("array",) if self.array is None else ("reordered",),
            )
        if not self.technologies:
            raise InputError(
                "technologies must name at least one cost table",
                hint="see einrtl list technologies",
                field=("technologies",),
            )
        if self.seed < 0:
            raise InputError(f"seed must be 0 or more, not {self.seed}", field=("seed",))
        if self.workload.window is not None and self.workload.window < self.workload.keys:
            raise InputError(
                f"window must be all {self.workload.keys} keys, as no core leaves any out, not {self.workload.window}",
                hint="remove it",
                field=("workload", "window"),
            )
        longest = (self.array or self.reordered).max_length  # type: ignore[union-attr]
        for name in ("queries", "keys"):
            if getattr(self.workload, name) > longest:
                raise InputError(
                    f"{name} must be at most the core's max_length ({longest}), not {getattr(self.workload, name)}",
                    hint="raise max_length",
                    field=("workload", name),
                )
        if self.reordered is not None:
            self._check_features(self.reordered)

    def _check_features(self, unit: ReorderedUnit) -> None:
        for name, given, wanted in (
            ("query_key_dim", self.workload.query_key_dim, unit.key_features),
            ("value_dim", self.workload.value_dim, unit.value_features),
        ):
            if given != wanted:
                feature = "key_features" if name == "query_key_dim" else "value_features"
                raise InputError(
                    f"{name} must be the core's {feature} ({wanted}), not {given}",
                    hint=f"use {feature}: {given}",
                    field=("workload", name),
                )

    @property
    def heads(self) -> int:
        """Heads of all sequences, one after the other."""
        return self.workload.batch * self.workload.heads

    def mapped(self, schedule: Path | None) -> AttentionFile:
        """Return the file with another schedule for its array; without one, itself.

        Raises
        ------
        InputError
            The core takes no schedule.
        """
        if schedule is None:
            return self
        if self.array is None:
            raise InputError(
                "a schedule must be for an array, but the core is a reordered unit", hint="leave out --schedule"
            )
        return dataclasses.replace(self, array=dataclasses.replace(self.array, schedule=str(schedule)))

    def schedule(self) -> Schedule:
        """Return the schedule of the array, as it was found: without the stalls that links need.

        Raises
        ------
        InputError
            The file cannot be read, or is for another architecture.
        """
        assert self.array is not None
        machine = load_architecture(self.array.architecture)
        if self.array.schedule is None:
            array = machine.arrays.get("2d")
            rows, columns = (array.rows, array.columns) if array else (1, 1)
            query_tiles = max(1, min(4, -(-self.array.max_length // columns)))
            tiles = {
                "m0": min(rows, self.array.max_length),
                "p1": query_tiles,
                "p0": min(columns, self.array.max_length),
            }
            plan = load_template(_TEMPLATE).plan
            return Schedule(cascade=CASCADE, architecture=machine.name, tiles=tiles, plan=plan)
        found = load_schedule(Path(self.array.schedule))
        if found.architecture != machine.name:
            raise InputError(
                f"{self.array.schedule} must be for architecture {machine.name!r}, but is for {found.architecture!r}",
                hint=f"map with --arch {self.array.architecture}",
            )
        return found

    def array_unit(self) -> AttentionArray:
        """Return the array, with the stalls that its links need.

        Raises
        ------
        InputError
            The array cannot follow the schedule, or cannot do the job.
        """
        core = self.array
        assert core is not None
        try:
            unit = AttentionArray.of(
                load_architecture(core.architecture),
                self.schedule(),
                query_key_dim=self.workload.query_key_dim,
                value_dim=self.workload.value_dim,
                max_length=core.max_length,
                query_format=core.query_format,
                key_format=core.key_format,
                value_format=core.value_format,
                output_format=core.output_format,
                weight_fraction_bits=core.weight_fraction_bits,
            )
        except InputError as error:
            problem = error.problems[0]
            if core.schedule is None or problem.field[:1] != ("plan",):
                raise
            raise InputError(
                f"{core.schedule}: {problem.message}",
                hint=f"map with --template {_TEMPLATE}, the plan that the array can follow",
            ) from None
        unit = with_stalls(unit)
        check_job(unit, self.job)
        return unit

    @property
    def job(self) -> Job:
        """All heads as a job of an array."""
        return Job(queries=self.workload.queries, keys=self.workload.keys, heads=self.heads, causal=self.causal)

    @property
    def head_job(self) -> AttentionJob:
        """One head as a job of a reordered unit."""
        return AttentionJob(queries=self.workload.queries, keys=self.workload.keys, causal=self.causal)


def load_attention_file(path: Path) -> AttentionFile:
    """Return the attention file at ``path``, its file names made relative to the working folder.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    text = spec.read_text(path)
    if {"plan", "tiles"} <= spec.loads(dict[str, object], text, file=str(path)).keys():
        raise InputError(f"{path} must be an attention file, not a schedule", hint="give the schedule with --schedule")
    found = spec.loads(AttentionFile, text, file=str(path))
    if found.array is None:
        return found
    core = found.array
    is_file = core.architecture.endswith((".yaml", ".yml"))
    core = dataclasses.replace(
        core,
        architecture=str(path.parent / core.architecture) if is_file else core.architecture,
        schedule=None if core.schedule is None else str(path.parent / core.schedule),
    )
    return dataclasses.replace(found, array=core)
