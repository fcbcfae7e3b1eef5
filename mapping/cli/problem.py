"""The arguments of commands that look at one saved schedule or nest for one model's attention."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from accel import spec
from accel.arch import Architecture, architecture_names, load_architecture
from accel.cascade import Cascade, cascade_names, load_cascade
from accel.cli.model import dimensions_option
from accel.errors import InputError
from accel.nest import NestSchedule
from accel.schedule import Schedule
from accel.workload import Workload
from accel.workload_file import read_workload
from mapping.cli.window import Window, find_window
from mapping.nest import NestModel

__all__ = ["Options", "SavedNest", "SavedProblem", "problem_arguments", "read_problem", "read_saved", "saved_arguments"]


@dataclass(frozen=True, kw_only=True)
class SavedProblem:
    """What is computed, on what, how, and at which sizes.

    Parameters
    ----------
    cascade, architecture, schedule, workload
        As for ``mapping.model.price``.
    window : Window, optional
        The window that the filters of the cascade use; None if they use none.
    """

    cascade: Cascade
    architecture: Architecture
    schedule: Schedule
    workload: Workload
    window: Window | None = None


@dataclass(frozen=True, kw_only=True)
class SavedNest:
    """A nest for one model's attention.

    Parameters
    ----------
    model : NestModel
        The nest, checked.
    workload : Workload
        The attention that it is for.
    window : Window, optional
        The window that the filters of the cascade use; None if they use none.
    """

    model: NestModel
    workload: Workload
    window: Window | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the options of the command line say.

    Parameters
    ----------
    architecture, cascade : str, optional
        Name or file; by default what the schedule names.
    batch, length, queries, window, dims
        As for ``read_workload``.
    """

    architecture: str | None = None
    cascade: str | None = None
    batch: int | None = None
    length: int | None = None
    queries: int | None = None
    window: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)

    def descriptions(self, schedule: Path, saved: Schedule | NestSchedule) -> tuple[Cascade, Architecture]:
        """Return the cascade and the architecture of a saved schedule."""
        for option, what, name, given, known in (
            ("--cascade FILE.ein", "cascade", saved.cascade, self.cascade, cascade_names()),
            ("--arch FILE.yaml", "architecture", saved.architecture, self.architecture, architecture_names()),
        ):
            if given is None and name not in known:
                raise InputError(
                    f"{schedule} is for {what} {name!r}, which must be packaged or be given as a file",
                    hint=f"add {option}",
                )
        cascade, architecture = self.cascade or saved.cascade, self.architecture or saved.architecture
        return load_cascade(cascade), load_architecture(architecture)

    def workload(self, config: Path) -> Workload:
        """Return the attention of a model."""
        return read_workload(
            config, batch=self.batch, length=self.length, queries=self.queries, window=self.window, dims=self.dims
        )


def read_problem(schedule: Path, config: Path, options: Options | None = None) -> SavedProblem:
    """Return what a schedule file, a model's configuration and the options describe.

    Parameters
    ----------
    schedule, config : Path
        The schedule, and the ``config.json`` of a Hugging Face model.
    options : Options, optional
        What else was given.

    Raises
    ------
    InputError
        A file cannot be read or breaks a rule, or the schedule names what is not packaged and no file is given.
    """
    return _problem(schedule, spec.load(Schedule, schedule), config, options or Options())


def read_saved(schedule: Path, config: Path, options: Options | None = None) -> SavedProblem | SavedNest:
    """Return as ``read_problem``, or the nest of a file that holds one.

    Raises
    ------
    InputError
        As ``read_problem``; a nest that does not fit its cascade, architecture or sizes is refused too.
    """
    given, text = options or Options(), spec.read_text(schedule)
    if "nest" not in spec.loads(dict[str, object], text, file=str(schedule)):
        return _problem(schedule, spec.loads(Schedule, text, file=str(schedule)), config, given)
    saved = spec.loads(NestSchedule, text, file=str(schedule))
    cascade, architecture = given.descriptions(schedule, saved)
    for what, meant, found in (
        ("cascade", saved.cascade, cascade.name),
        ("architecture", saved.architecture, architecture.name),
    ):
        if meant != found:
            raise InputError(
                f"the nest must be for {what} {found!r}, but is for {meant!r}", hint=f"price it with {what} {meant!r}"
            )
    workload = given.workload(config)
    sizes = workload.sizes | workload.parameters
    model = NestModel(cascade=cascade, architecture=architecture, nest=saved.nest, sizes=sizes)
    return SavedNest(model=model, workload=workload, window=find_window(cascade, workload, config, given.window))


def _problem(schedule: Path, saved: Schedule, config: Path, options: Options) -> SavedProblem:
    cascade, architecture = options.descriptions(schedule, saved)
    workload = options.workload(config)
    window = find_window(cascade, workload, config, options.window)
    return SavedProblem(cascade=cascade, architecture=architecture, schedule=saved, workload=workload, window=window)


_ARGUMENTS = (
    click.argument("schedule", type=click.Path(path_type=Path)),
    click.argument("config", type=click.Path(path_type=Path)),
    click.option("--arch", "architecture", help="Architecture: name or .yaml.  [default: the schedule's own]"),
    click.option("--cascade", help="Cascade: name or .ein file.  [default: the schedule's own]"),
    click.option("--batch", type=click.IntRange(min=1), help="Sequences.  [default: 1, or what an ONNX model says]"),
    click.option("--length", type=click.IntRange(min=1), help="Keys, and queries too.  [default: the model's own]"),
    click.option(
        "--queries", type=click.IntRange(min=1), help="Queries where fewer than keys, such as 1 for decoding."
    ),
    click.option(
        "--window",
        type=click.IntRange(min=1),
        help="Keys that a query sees, for cascades with a window W.  [default: the model's own, or the cascade's]",
    ),
    dimensions_option,
)


def problem_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments of ``read_problem``; it is called with the ``SavedProblem`` first."""
    return _with_arguments(command, read_problem)


def saved_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments of ``read_saved``; it is called with what that returns first."""
    return _with_arguments(command, read_saved)


def _with_arguments(command: Callable[..., None], read: Callable[..., object]) -> Callable[..., None]:
    @functools.wraps(command)
    def read_and_call(
        *,
        schedule: Path,
        config: Path,
        architecture: str | None,
        cascade: str | None,
        batch: int | None,
        length: int | None,
        queries: int | None,
        window: int | None,
        dims: dict[str, int],
        **others: Any,
    ) -> None:
        options = Options(
            architecture=architecture,
            cascade=cascade,
            batch=batch,
            length=length,
            queries=queries,
            window=window,
            dims=dims,
        )
        command(read(schedule, config, options), **others)

    return functools.reduce(lambda inner, argument: argument(inner), reversed(_ARGUMENTS), read_and_call)
