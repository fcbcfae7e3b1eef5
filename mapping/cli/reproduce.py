"""``einrtl reproduce``: published results computed again, each beside the published value."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from accel.cli import console, json_option, print_json, table
from accel.configuration import load_study, study_names
from mapping.cli.beyond import BEYOND, beyond_options, refuse_other_options, show
from mapping.cli.frame_tables import print_reproduction
from mapping.published import QUANTITIES, Mean, Point, Published, load_published, mean_rows, points
from mapping.reproduce import StudyResult, price_study

__all__ = ["reproduce", "tables"]

_HEADLINES = (
    ("attention_speedup_over_flat", "attention speed-up over FLAT"),
    ("attention_speedup_over_unfused", "attention speed-up over Unfused"),
    ("attention_energy_to_flat", "attention energy relative to FLAT"),
    ("attention_energy_to_unfused", "attention energy relative to Unfused"),
    ("end_to_end_speedup_over_flat", "end-to-end speed-up over FLAT"),
    ("end_to_end_speedup_over_unfused", "end-to-end speed-up over Unfused"),
    ("end_to_end_energy_to_flat", "end-to-end energy relative to FLAT"),
    ("end_to_end_energy_to_unfused", "end-to-end energy relative to Unfused"),
    ("util_2d", "use of the 2D array"),
    ("util_1d", "use of the 1D array"),
)


@click.command()
@click.argument("what", type=click.Choice(["fusemax", "edge-moe", *BEYOND]))
@click.option(
    "--setting", type=click.Choice(study_names()), default="published", show_default=True, help="Cost setting."
)
@click.option("--all", "show_all", is_flag=True, help="Show all quantities of all points, not only the main ones.")
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), help="Draw the figures into a folder.")
@beyond_options
@json_option
def reproduce(what: str, setting: str, show_all: bool, plot: Path | None, as_json: bool, **beyond: Any) -> None:
    """Compute the published results of WHAT and show them beside the published values.

    The computation reads cascades, architectures, schedules and cost tables. It reads no published result.
    --setting, --all and --plot are for fusemax.

    fusemax-beyond shows the best schedules found for the points of FuseMax, fusemax-codesign the best design of no more
    area, and beyond-paper the best schedules for cases of which the paper says nothing (docs/beyond.md). --budget is
    for these, --setting also for the first two.
    """
    if what == "edge-moe":
        _only_for_fusemax()
        refuse_other_options(what)
        print_reproduction(as_json=as_json)
        return
    refuse_other_options(what)
    if what in BEYOND:
        show(what, setting=setting, as_json=as_json, **beyond)
        return
    begin = time.perf_counter()
    study = load_study(setting)
    result = price_study(study)
    wall_time_s = time.perf_counter() - begin
    published = load_published()
    found, means = points(result, published), mean_rows(result, published)
    if plot is not None:
        from mapping.plot_reproduce import figures  # matplotlib takes longer to import than all else here

        written = figures(result, published, plot)
    if as_json:
        print_json(_as_json(what, result, published, found, means, wall_time_s))
        return
    out = console()
    for each in tables(result, published, found, means, show_all=show_all):
        out.print(each)
        out.print()
    out.print(f"Cost setting: {study.name}. {study.description}")
    out.print(f"{len(found)} values in {wall_time_s:.2f} s.")
    if plot is not None:
        for file in written:
            out.print(f"Wrote {file}")


def _only_for_fusemax() -> None:
    context = click.get_current_context()
    for name, option in (("setting", "--setting"), ("show_all", "--all"), ("plot", "--plot")):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} is for fusemax; edge-moe is shown whole, without it")


def _as_json(
    what: str,
    result: StudyResult,
    published: Published,
    found: Iterable[Point],
    means: Iterable[Mean],
    wall_time_s: float,
) -> dict[str, Any]:
    def beside(ours: float, given: float | None) -> dict[str, float | None]:
        return {"ours": ours, "published": given, "relative_error": ours / given - 1 if given else None}

    return {
        "what": what,
        "setting": result.study.name,
        "points": [
            {
                "configuration": each.configuration,
                "model": each.model,
                "length": each.length,
                "quantity": each.quantity,
                **beside(each.ours, each.published),
                "known_fault": each.known_fault,
            }
            for each in found
        ],
        "means": [
            {"configuration": each.configuration, "quantity": each.quantity, **beside(each.ours, each.published)}
            for each in means
        ],
        "sweep": [
            {
                "model": each.model,
                "side": each.side,
                "quantity": quantity,
                **beside(getattr(each, quantity), published.sweep.get((each.model, each.side), {}).get(quantity)),
            }
            for each in result.sweep
            for quantity in ("latency_s", "traffic_bytes", "array_2d_area_um2")
        ],
        "areas_mm2": {name: beside(area, published.areas_mm2.get(name)) for name, area in result.areas_mm2.items()},
        "wall_time_s": wall_time_s,
    }


def _error(value: float | None) -> str:
    if value is None:
        return "-"
    return "0" if abs(value) < 1e-12 else f"{value:+.1e}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def tables(
    result: StudyResult, published: Published, found: tuple[Point, ...], means: tuple[Mean, ...], *, show_all: bool
) -> Iterator[Any]:
    """Yield the tables for a person: points, errors, means, ablation, sweep, area."""
    shown = [*QUANTITIES, *(name for name, _ in _HEADLINES)] if show_all else QUANTITIES[:5]
    for quantity in dict.fromkeys(shown):
        yield table(
            quantity,
            ["configuration", "model", "length", "ours", "published", "error", ""],
            [
                (
                    each.configuration,
                    each.model,
                    f"{each.length:,}",
                    _number(each.ours),
                    _number(each.published),
                    _error(each.relative_error),
                    "published counts are faulty" if each.known_fault else "",
                )
                for each in found
                if each.quantity == quantity
            ],
            right=(2, 3, 4, 5),
        )
    yield agreement(found)
    names = [each.name for each in result.study.configurations]
    lookup = {(mean.configuration, mean.quantity): mean for mean in means}
    last = names[-1]
    yield table(
        f"Means of {last} over all models and lengths ({result.study.name})",
        ["quantity", "ours", "published", "error"],
        [
            (
                words,
                _number(lookup[last, key].ours),
                _number(lookup[last, key].published),
                _error(lookup[last, key].relative_error),
            )
            for key, words in _HEADLINES
        ],
        right=(1, 2, 3),
    )
    yield table(
        "Ablation: means, ours (published)",
        ["quantity", *names],
        [
            (words, *(f"{_number(lookup[n, key].ours)} ({_number(lookup[n, key].published)})" for n in names))
            for key, words in _HEADLINES
        ],
        right=range(1, len(names) + 1),
    )
    yield _sweep_table(result, published)
    yield table(
        "Area, mm2",
        ["architecture", "ours", "published", "error"],
        [
            (name, f"{area:.2f}", _number(given), _error(area / given - 1 if given else None))
            for name, area in result.areas_mm2.items()
            for given in [published.areas_mm2.get(name)]
        ],
        right=(1, 2, 3),
    )


def agreement(found: tuple[Point, ...]) -> Any:
    """Return the table of how many points agree, by quantity; points with a known fault apart."""
    rows = []
    for quantity in dict.fromkeys(each.quantity for each in found):
        here = [each for each in found if each.quantity == quantity and each.relative_error is not None]
        sound = [abs(each.relative_error or 0) for each in here if not each.known_fault]
        faulty = [abs(each.relative_error or 0) for each in here if each.known_fault]
        rows.append(
            (
                quantity,
                f"{sum(error < 1e-9 for error in sound)} of {len(sound)}",
                f"{max(sound, default=0):.1e}",
                f"{len(faulty)}" if faulty else "",
                f"{max(faulty):.1e}" if faulty else "",
            )
        )
    return table(
        "Agreement with what was published",
        ["quantity", "within 1e-9", "largest error", "known faults", "largest difference there"],
        rows,
        right=(1, 2, 3, 4),
    )


def _sweep_table(result: StudyResult, published: Published) -> Any:
    rows = []
    for each in result.sweep:
        given = published.sweep.get((each.model, each.side), {})
        latency, area = given.get("latency_s"), given.get("array_2d_area_um2")
        rows.append(
            (
                each.model,
                f"{each.side} x {each.side}",
                _number(each.latency_s),
                _number(latency),
                _error(each.latency_s / latency - 1 if latency else None),
                f"{each.array_2d_area_um2 / 1e6:.4g}",
                "-" if area is None else f"{area / 1e6:.4g}",
            )
        )
    return table(
        f"Sweep of the 2D array at length {result.study.sweep_length:,}",
        ["model", "array", "latency_s", "published", "error", "array mm2", "published mm2"],
        rows,
        right=(2, 3, 4, 5, 6),
    )
