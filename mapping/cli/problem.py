"""The arguments of commands that look at one saved schedule for one model's attention."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from accel.arch import Architecture, architecture_names, load_architecture
from accel.cascade import Cascade, cascade_names, load_cascade
from accel.errors import InputError
from accel.schedule import Schedule, load_schedule
from accel.workload import Workload, read_hugging_face_config

__all__ = ["SavedProblem", "problem_arguments", "read_problem"]


@dataclass(frozen=True, kw_only=True)
class SavedProblem:
    """What is computed, on what, how, and at which sizes.

    Parameters
    ----------
    cascade, architecture, schedule, workload
        As for ``mapping.model.price``.
    """

    cascade: Cascade
    architecture: Architecture
    schedule: Schedule
    workload: Workload


def read_problem(
    schedule: Path,
    config: Path,
    *,
    architecture: str | None = None,
    cascade: str | None = None,
    batch: int = 1,
    length: int | None = None,
    queries: int | None = None,
) -> SavedProblem:
    """Return what a schedule file, a model's configuration and the options describe.

    Parameters
    ----------
    schedule, config : Path
        The schedule, and the ``config.json`` of a Hugging Face model.
    architecture, cascade : str, optional
        Name or file; by default what the schedule names.
    batch, length, queries
        As for ``AttentionModel.workload``.

    Raises
    ------
    InputError
        A file cannot be read or breaks a rule, or the schedule names what is not packaged and no file is given.
    """
    saved = load_schedule(schedule)
    for option, what, name, given, known in (
        ("--cascade FILE.ein", "cascade", saved.cascade, cascade, cascade_names()),
        ("--arch FILE.yaml", "architecture", saved.architecture, architecture, architecture_names()),
    ):
        if given is None and name not in known:
            raise InputError(
                f"{schedule} is for {what} {name!r}, which must be packaged or be given as a file",
                hint=f"add {option}",
            )
    return SavedProblem(
        cascade=load_cascade(cascade or saved.cascade),
        architecture=load_architecture(architecture or saved.architecture),
        schedule=saved,
        workload=read_hugging_face_config(config).workload(batch=batch, length=length, queries=queries),
    )


_ARGUMENTS = (
    click.argument("schedule", type=click.Path(path_type=Path)),
    click.argument("config", type=click.Path(path_type=Path)),
    click.option("--arch", "architecture", help="Architecture: name or .yaml.  [default: the schedule's own]"),
    click.option("--cascade", help="Cascade: name or .ein file.  [default: the schedule's own]"),
    click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Sequences."),
    click.option("--length", type=click.IntRange(min=1), help="Keys, and queries too.  [default: the model's own]"),
    click.option(
        "--queries", type=click.IntRange(min=1), help="Queries where fewer than keys, such as 1 for decoding."
    ),
)


def problem_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments of ``read_problem``; it is called with the ``SavedProblem`` first."""

    @functools.wraps(command)
    def read_and_call(
        *,
        schedule: Path,
        config: Path,
        architecture: str | None,
        cascade: str | None,
        batch: int,
        length: int | None,
        queries: int | None,
        **others: Any,
    ) -> None:
        problem = read_problem(
            schedule,
            config,
            architecture=architecture,
            cascade=cascade,
            batch=batch,
            length=length,
            queries=queries,
        )
        command(problem, **others)

    return functools.reduce(lambda inner, argument: argument(inner), reversed(_ARGUMENTS), read_and_call)
