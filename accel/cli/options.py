"""Options that every command takes, so that no command has to ask for them: ``--quiet`` and ``--verbose``."""

from __future__ import annotations

from dataclasses import dataclass

import click

__all__ = ["Loudness", "loudness", "with_common_options"]


@dataclass(kw_only=True)
class Loudness:
    """How much a run of the command line says.

    Parameters
    ----------
    quiet : bool
        Only errors, and JSON where it is asked for.
    verbose : bool
        Versions and time too, and where in the code an error arose.
    """

    quiet: bool = False
    verbose: bool = False


def loudness() -> Loudness:
    """Return how much the command that runs now shall say; outside a command the usual."""
    context = click.get_current_context(silent=True)
    return Loudness() if context is None else context.find_root().ensure_object(Loudness)


def _choose(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        assert parameter.name is not None
        setattr(context.find_root().ensure_object(Loudness), parameter.name, True)


def _common() -> tuple[click.Option, ...]:
    return (
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_choose,
            help="Print nothing but errors, and JSON if asked for.",
        ),
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            callback=_choose,
            help="Print versions and the time taken too, and where an error arose.",
        ),
    )


def with_common_options(command: click.Command) -> click.Command:
    """Add the common options to ``command`` and the commands below it, once, where a name is still free."""
    taken = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for option in _common():
        if option.opts[-1] not in taken:
            option.opts = [name for name in option.opts if name not in taken]
            command.params.append(option)
    if isinstance(command, click.Group):
        for child in command.commands.values():
            with_common_options(child)
    return command
