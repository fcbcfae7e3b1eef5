"""The command ``einrtl derive``: the form of a cascade that visits its elements once, or what forbids it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from accel.cascade import load_cascade
from accel.cli import console, json_option, print_json, table
from accel.errors import InputError, did_you_mean
from accel.files import write_text
from mapping.derivation.check import operations
from mapping.derive import FORMS, Derivation
from mapping.derive import derive as derive_form
from mapping.plain import load_plain, plain_names

__all__ = ["derive"]

_DEFAULT_ELEMENTS = 1024
_DEFAULT_TILE = 128
_DEFAULT_OTHER = 64


@click.command()
@click.argument("names_or_files", metavar="NAME_OR_FILE...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Derive every plain definition.")
@click.option("--as-packaged", is_flag=True, help="Start from the packaged cascade, not from its plain definition.")
@click.option("--rank", metavar="RANK", help="Rank whose passes count; without it the one with the most.")
@click.option(
    "--form",
    type=click.Choice(FORMS),
    default="running",
    show_default=True,
    help="Values that run from tile to tile, or tiles that are merged at the end (split-K).",
)
@click.option("--tile", metavar="NUMBER", type=click.IntRange(min=1), help="Elements of a tile, to count operations.")
@click.option(
    "--size",
    "size_texts",
    metavar="SYMBOL=NUMBER",
    multiple=True,
    help="Size of a rank, to count operations; repeat it, or join several by commas.",
)
@click.option("--steps", is_flag=True, help="Print every step with the algebra that makes it right.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the derived cascade here.")
@click.option("--markdown", is_flag=True, help="Print the table of several derivations as Markdown.")
@json_option
def derive(
    names_or_files: tuple[str, ...],
    every: bool,
    as_packaged: bool,
    rank: str | None,
    form: str,
    tile: int | None,
    size_texts: tuple[str, ...],
    steps: bool,
    output: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Derive the form with the fewest passes of a cascade: one known by name, or a .ein file.

    Starts from the plain definition, of which many packaged cascades have one, and applies distributivity, shifts of
    exponents that cancel, and running statistics with corrections found by algebra. The result is run against its
    source before it is shown. Where no rule helps, the Einsum that forbids it is named.
    """
    names = (*names_or_files, *(plain_names() if every else ()))
    if not names:
        raise InputError("einrtl derive must be given a cascade", hint="name one or more, or give --all")
    if output is not None and len(names) > 1:
        raise InputError(f"-o must stand with one cascade, not {len(names)}", hint="derive them one by one")
    load = load_cascade if as_packaged else load_plain
    found = [derive_form(load(name), rank, form=form) for name in names]
    sizes = [_sizes(each, size_texts, tile) for each in found]
    if output is not None:
        _write(found[0], output)
    if as_json:
        results = [each.as_dict(known) for each, known in zip(found, sizes, strict=True)]
        print_json(results[0] if len(names) == 1 else results)
    elif markdown:
        click.echo(_markdown(found))
    elif len(names) > 1:
        _show_many(found, console())
    else:
        _show(found[0], sizes[0], steps, console())


def _sizes(derivation: Derivation, texts: Iterable[str], tile: int | None) -> dict[str, int]:
    """Return the sizes for which operations are counted: those given, and defaults for all others."""
    cascades = [derivation.source, *([derivation.cascade] if derivation.cascade else [])]
    known = dict.fromkeys(symbol for each in cascades for symbol in each.symbols)
    given: dict[str, int] = {}
    for text in (part for option in texts for part in option.split(",")):
        symbol, equals, number = text.partition("=")
        if not equals or not number.strip().isdecimal():
            raise InputError(f"--size must be SYMBOL=NUMBER, not {text!r}", hint="write it as in --size M=4096")
        if symbol.strip() not in known:
            hint = did_you_mean(symbol.strip(), known)
            raise InputError(
                f"--size {text}: cascade {derivation.source.name} has no size {symbol.strip()!r}", hint=hint
            )
        given[symbol.strip()] = int(number)
    outer, inner = _tile_symbols(derivation)
    if tile is not None and inner:
        given[inner] = tile
    joined = derivation.same_extent
    elements = next((given[symbol] for symbol in joined if symbol in given), _DEFAULT_ELEMENTS)
    for symbol in known:
        if symbol in joined:
            given.setdefault(symbol, elements)
        elif symbol == inner:
            given.setdefault(symbol, min(_DEFAULT_TILE, elements))
        elif symbol != outer:
            given.setdefault(symbol, _DEFAULT_OTHER)
    return given


def _tile_symbols(derivation: Derivation) -> tuple[str, str]:
    """Return the symbols of the number of tiles and of the size of one; empty where nothing is partitioned."""
    if derivation.cascade is None:
        return "", ""
    for digits, rank in derivation.cascade.partitions.items():
        if rank in (derivation.rank, *(symbol.lower() for symbol in derivation.same_extent)):
            return digits[0].upper(), digits[-1].upper()
    return "", ""


def _write(derivation: Derivation, path: Path) -> None:
    if derivation.cascade is None:
        first = derivation.blocked[0]
        raise InputError(
            f"cascade {derivation.source.name} has no derived form: {first.einsum} forbids it ({first.reason})",
            hint="leave -o out to see more",
        )
    write_text(path, str(derivation.cascade))


def _count(number: int | None) -> str:
    return "no bound" if number is None else str(number)


def _verdict(derivation: Derivation) -> str:
    before, after = _count(derivation.passes_before), _count(derivation.passes_after)
    passes = f"{before} -> {after} passes over {derivation.rank}"
    if derivation.derived:
        return passes if derivation.steps else f"{before} pass over {derivation.rank}: nothing to derive"
    return f"{passes}; no 1-pass form with bounded state by these rules"


def _show(derivation: Derivation, sizes: Mapping[str, int], steps: bool, out: Console) -> None:
    out.print(f"[bold]{derivation.source.name}: {_verdict(derivation)}[/bold]\n")
    if not derivation.derived:
        for number, each in enumerate(_distinct(derivation)):
            out.print(f"{'Forbidden by' if number == 0 else '         and'} {each[0]}: {each[1]}.", markup=False)
        out.print()
    if steps:
        _show_steps(derivation, out)
    if derivation.cascade is None:
        return
    out.print(str(derivation.cascade), markup=False, soft_wrap=True)
    if derivation.check is not None:
        check = derivation.check
        out.print(
            f"Checked against {derivation.source.name} on {check.cases} inputs: {check.max_relative_error:.1e} off in "
            f"float64, {check.max_relative_error_single:.1e} in float32 (relative)."
        )
        if check.source_overflows:
            out.print(
                f"On {check.source_overflows} of them the source overflows even in float64, and this form does not."
            )
        if check.ill_conditioned:
            out.print(f"On {check.ill_conditioned} the result hangs on single rounding errors; they are left out.")
        _show_operations(derivation, sizes, out)


def _distinct(derivation: Derivation) -> list[tuple[str, str]]:
    return list(dict.fromkeys((each.einsum, each.reason) for each in derivation.blocked))


def _show_steps(derivation: Derivation, out: Console) -> None:
    for number, step in enumerate(derivation.steps, start=1):
        out.print(f"[bold]{number}. {step.rule}[/bold] ({step.einsum})")
        for line in step.before:
            out.print(f"     from     {line}", markup=False, soft_wrap=True)
        for line in step.after:
            out.print(f"     to       {line}", markup=False, soft_wrap=True)
        out.print(f"     because  {step.condition}\n", markup=False, soft_wrap=True)


def _show_operations(derivation: Derivation, sizes: Mapping[str, int], out: Console) -> None:
    assert derivation.cascade is not None
    before, after = operations(derivation.source, sizes), operations(derivation.cascade, sizes)
    rows = [
        (name, f"{before.get(name, 0):,}", f"{after.get(name, 0):,}", f"{after.get(name, 0) - before.get(name, 0):+,}")
        for name in sorted({*before, *after})
    ]
    where = ", ".join(f"{symbol}={number}" for symbol, number in sizes.items())
    out.print(table(f"\nOperations ({where})", ("Operation", "Before", "After", "Extra"), rows, right=(1, 2, 3)))


_HEADS = ("Cascade", "Rank", "Before", "After", "Rules", "Error", "Forbidden by")


def _rows(found: list[Derivation]) -> Iterator[tuple[str, ...]]:
    for each in found:
        first = None if each.derived or not each.blocked else each.blocked[0]
        yield (
            each.source.name,
            each.rank,
            _count(each.passes_before),
            _count(each.passes_after),
            ", ".join(dict.fromkeys(step.rule for step in each.steps)),
            f"{each.check.max_relative_error:.0e}" if each.check else "",
            f"{first.einsum}: {first.reason}" if first else "",
        )


def _summary(found: list[Derivation]) -> str:
    one = sum(each.derived for each in found)
    fresh = sum(bool(each.derived and each.steps) for each in found)
    return f"{one} of {len(found)} have a 1-pass form, {fresh} of them derived."


def _show_many(found: list[Derivation], out: Console) -> None:
    rows = [tuple(map(escape, row)) for row in _rows(found)]
    out.print(table("Derivations", _HEADS, rows, right=(2, 3)))
    out.print(_summary(found))


def _markdown(found: list[Derivation]) -> str:
    """Return the table without the error, whose digits differ between machines."""
    kept = [number for number, head in enumerate(_HEADS) if head != "Error"]
    lines = ["| " + " | ".join(_HEADS[n].lower() for n in kept) + " |", "|" + "---|" * len(kept)]
    lines += ["| " + " | ".join(row[n] for n in kept) + " |" for row in _rows(found)]
    return "\n".join((*lines, "", _summary(found)))
