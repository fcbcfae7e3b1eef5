"""The points that a sweep file asks for, each under a digest of everything that its result depends on."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from accel import spec
from accel.arch import Architecture, load_architecture
from accel.cascade import load_cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError, did_you_mean
from accel.sweep import ArchitectureSpace, Scalar, SweepFile, load_sweep_file
from accel.workload import Workload, read_hugging_face_config
from mapping.search import Objective

__all__ = ["Description", "Point", "SweepPlan", "load_plan"]


def digest_of(value: Any) -> str:
    """Return 32 hexadecimal digits that stand for JSON values: equal values, equal digits, on every machine."""
    return hashlib.sha256(_json(value).encode()).hexdigest()[:32]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Description:
    """One input of a point as text, so that it can be sent to any machine and stored with the results.

    Parameters
    ----------
    kind : str
        ``cascade``, ``architecture``, ``technology`` or ``workload``.
    name : str
        As messages and tables call it.
    digest : str
        Of what results depend on: not of descriptions in prose, nor of the sources of numbers.
    text : str
        A cascade in its notation, anything else as JSON, which ``accel.spec`` reads too.
    """

    kind: str
    name: str
    digest: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """One design for one workload.

    Parameters
    ----------
    digest : str
        Of the descriptions' digests, the objective and the version of EinRTL: what the result depends on.
    cascade, architecture, technology : Description
        The design.
    workload : Workload
        What it runs.
    workload_text : Description
        The same, as it is stored.
    objective : str
        What the schedule has least of.
    settings : mapping of str to Scalar
        Dotted path to value of the fields that the sweep file sets in the architecture.
    """

    digest: str
    cascade: Description
    architecture: Description
    technology: Description
    workload: Workload
    workload_text: Description
    objective: str
    settings: Mapping[str, Scalar]

    @property
    def descriptions(self) -> tuple[Description, ...]:
        """All four descriptions."""
        return (self.cascade, self.architecture, self.technology, self.workload_text)


class _Base:
    """An architecture of a sweep file, ready to be varied."""

    def __init__(self, space: ArchitectureSpace, folder: Path, where: tuple[str | int, ...]) -> None:
        self.space = space
        base = load_architecture(_beside(folder, space.base, (".yaml", ".yml")))
        self.name = base.name
        self.values: dict[str, Any] = TypeAdapter(Architecture).dump_python(base, mode="json")
        self.leaves = dict(_leaves(self.values))
        self._technologies: dict[str, Description] = {}
        for path, value in space.fixed.items():
            self._check(path, value, (*where, "fixed", path))
        for index, variation in enumerate(space.vary):
            for path, value in itertools.product(variation.fields, variation.choices):
                self._check(path, value, (*where, "vary", index))

    def _check(self, path: str, value: Scalar, where: tuple[str | int, ...]) -> None:
        if path not in self.leaves:
            raise InputError(
                f"a sweep must set fields of architecture {self.name!r}, but {path!r} is none",
                hint=self._nearest(path),
                field=where,
            )
        wanted = self.leaves[path]
        kinds = (int, float) if isinstance(wanted, float) else (type(wanted),)
        if type(value) not in kinds:
            raise InputError(
                f"field {path!r} must be {_KINDS[type(wanted)]}, as {json.dumps(wanted)} is, not {json.dumps(value)}",
                field=where,
            )

    def _nearest(self, path: str) -> str:
        inside = [leaf for leaf in self.leaves if leaf.startswith(f"{path}.")]
        if inside:
            return f"name a field in it, such as {inside[0]}"
        near = did_you_mean(path, self.leaves)
        return near if near.startswith("did") else f"see the fields in the file of {self.space.base}"

    def architecture(self, settings: Mapping[str, Scalar]) -> Description:
        """Return the architecture with fields set; it may still break a rule, which the point's result tells."""
        values = copy.deepcopy(self.values)
        for path, value in settings.items():
            *around, last = path.split(".")
            inner = values
            for name in around:
                inner = inner[name]
            inner[last] = float(value) if isinstance(self.leaves[path], float) else value
            if value != self.leaves[path]:
                values["sources"][path] = "set by a sweep"
        physical = {key: value for key, value in values.items() if key not in ("description", "sources")}
        return Description(kind="architecture", name=self.name, digest=digest_of(physical), text=_json(values))

    def technology(self, settings: Mapping[str, Scalar]) -> Description:
        """Return the cost table that prices the architecture with fields set."""
        name = str(settings.get("technology", self.values["technology"]))
        if name not in self._technologies:
            self._technologies[name] = _describe("technology", name, load_cost_table(name), CostTable)
        return self._technologies[name]


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    """Yield dotted path and value of each field that a sweep may set."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if path in ("name", "description", "sources"):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}.")
        elif isinstance(value, bool | int | float | str):
            yield path, value


def _describe(kind: str, name: str, value: Any, cls: type) -> Description:
    values = TypeAdapter(cls).dump_python(value, mode="json")
    return Description(kind=kind, name=name, digest=digest_of(values), text=_json(values))


def _beside(folder: Path, name: str, endings: tuple[str, ...]) -> str:
    """Return a name as it is, and a file name relative to ``folder``."""
    return str(folder / name) if name.endswith(endings) or "/" in name or "\\" in name else name


class SweepPlan:
    """A sweep file with all that it names read in: every point can be made from it without another file.

    Parameters
    ----------
    sweep : SweepFile
        What to explore.
    folder : Path
        Where its file names start.
    text : str
        The sweep file as its author wrote it, to be stored with the results.

    Raises
    ------
    InputError
        A named description cannot be read, a field to set is not there or has another type, or an objective is unknown.
    """

    def __init__(self, sweep: SweepFile, *, folder: Path, text: str) -> None:
        self.sweep = sweep
        self.text = text
        self.version = version("einrtl")
        known = [each.value for each in Objective]
        for index, objective in enumerate(sweep.objectives):
            if objective not in known:
                raise InputError(
                    f"an objective must be one of {', '.join(known)}, not {objective!r}",
                    hint=did_you_mean(objective, known),
                    field=("objectives", index),
                )
        self._bases = [
            _Base(space, folder, ("architectures", index)) for index, space in enumerate(sweep.architectures)
        ]
        self._cascades = [
            Description(kind="cascade", name=cascade.name, digest=digest_of(str(cascade)), text=str(cascade))
            for cascade in (load_cascade(_beside(folder, name, (".ein",))) for name in sweep.cascades)
        ]
        self.workloads: tuple[Workload, ...] = tuple(
            read_hugging_face_config(folder / space.model).workload(batch=batch, length=length, queries=queries)
            for space in sweep.workloads
            for batch, length, queries in space.sizes
        )
        self._workload_texts = [_describe("workload", each.name, each, Workload) for each in self.workloads]

    @cached_property
    def digest(self) -> str:
        """Of everything that decides which points are asked for, and in which order."""
        bases = [base.architecture({}).digest for base in self._bases]
        rest = [*self._cascades, *self._workload_texts, *(base.technology(base.space.fixed) for base in self._bases)]
        return digest_of([self.version, spec.dump(self.sweep), bases, [each.digest for each in rest]])

    @cached_property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """Fields of all variations, without repetition: the columns that tell designs apart."""
        return tuple(dict.fromkeys(variation.fields for space in self.sweep.architectures for variation in space.vary))

    def choices(self, base: int) -> tuple[int, ...]:
        """Return how many values each variation of an architecture has."""
        return tuple(len(variation.choices) for variation in self.sweep.architectures[base].vary)

    def point(self, *, base: int, choice: Sequence[int], cascade: int, workload: int, objective: int) -> Point:
        """Return one point by the indices of its parts in the sweep file; ``choice`` has one for each variation."""
        source = self._bases[base]
        settings: dict[str, Scalar] = dict(source.space.fixed)
        for variation, index in zip(source.space.vary, choice, strict=True):
            settings.update(dict.fromkeys(variation.fields, variation.choices[index]))
        architecture, technology = source.architecture(settings), source.technology(settings)
        parts = (self._cascades[cascade], architecture, technology, self._workload_texts[workload])
        aim = self.sweep.objectives[objective]
        return Point(
            digest=digest_of([self.version, *(part.digest for part in parts), aim]),
            cascade=parts[0],
            architecture=architecture,
            technology=technology,
            workload=self.workloads[workload],
            workload_text=parts[3],
            objective=aim,
            settings=settings,
        )

    def grid(self) -> Iterator[Point]:
        """Yield all points: workloads outermost, then architectures, cascades, objectives."""
        for workload in range(len(self.workloads)):
            for base in range(len(self._bases)):
                for choice in itertools.product(*map(range, self.choices(base))):
                    for cascade, objective in itertools.product(
                        range(len(self._cascades)), range(len(self.sweep.objectives))
                    ):
                        yield self.point(
                            base=base, choice=choice, cascade=cascade, workload=workload, objective=objective
                        )


def load_plan(path: Path) -> SweepPlan:
    """Return the plan of the sweep file at ``path``.

    Raises
    ------
    InputError
        With every problem of the file; or as ``SweepPlan``, the message beginning with the file's name.
    """
    sweep = load_sweep_file(path)
    try:
        return SweepPlan(sweep, folder=path.parent, text=spec.read_text(path))
    except InputError as error:
        problem = error.problems[0]
        if problem.place is not None or not problem.field or problem.field[0] not in ("architectures", "objectives"):
            raise  # of another file, which its message names
        raise InputError(f"{path}: {problem.message}", hint=problem.hint, field=problem.field) from None
