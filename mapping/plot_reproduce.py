"""The figures of a reproduction: speed-up, energy, use and the sweep, ours as bars and lines, published as markers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from accel.files import writing
from mapping.published import Published
from mapping.reproduce import LayerPrice, StudyResult

__all__ = ["figures"]


def _bars(
    result: StudyResult,
    published: Published,
    quantity: str,
    label: str,
    value: Callable[[LayerPrice], float],
) -> Any:
    """Return a figure with a panel for each model, a group of bars for each length, and published values as dots."""
    study = result.study
    figure = Figure(figsize=(16, 3.6), layout="constrained")
    panels = figure.subplots(1, len(study.models), sharey=True, squeeze=False)[0]
    names = [each.name for each in study.configurations]
    width = 0.8 / len(names)
    for panel, model in zip(panels, study.models, strict=True):
        for order, name in enumerate(names):
            layers = [each for each in result.layers if each.configuration == name and each.model == model]
            at = [index + (order - (len(names) - 1) / 2) * width for index in range(len(layers))]
            panel.bar(at, [value(each) for each in layers], width, label=name)
            given = [published.points.get((name, model, each.length), {}).get(quantity) for each in layers]
            dots = [(x, y) for x, y in zip(at, given, strict=True) if y is not None]
            if dots:
                panel.plot(*zip(*dots, strict=True), "k.", markersize=4, label="published" if order == 0 else None)
        panel.set_title(model)
        panel.set_xticks(range(len(study.lengths)), [f"{length // 1024}K" for length in study.lengths])
        panel.set_xlabel("sequence length (tokens)")
    panels[0].set_ylabel(label)
    panels[-1].legend(fontsize="small")
    figure.suptitle(f"{label}, cost setting {study.name}")
    return figure


def _ratio(result: StudyResult, quantity: str) -> Callable[[LayerPrice], float]:
    return lambda layer: result.ratios(layer)[quantity]


def _sweep(result: StudyResult, published: Published) -> Any:
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    for model in result.study.models:
        mine = [each for each in result.sweep if each.model == model]
        panel.loglog(
            [each.array_2d_area_um2 / 1e6 for each in mine], [each.latency_s for each in mine], "-", label=model
        )
        given = [published.sweep.get((model, each.side)) for each in mine]
        panel.loglog(
            [each["array_2d_area_um2"] / 1e6 for each in given if each],
            [each["latency_s"] for each in given if each],
            "k.",
        )
    panel.set_xlabel("area of the 2D array (mm2)")
    panel.set_ylabel("attention latency (s)")
    panel.set_title(f"Array sizes at length {result.study.sweep_length:,}; dots: published")
    panel.legend()
    return figure


def figures(result: StudyResult, published: Published, folder: Path) -> tuple[Path, ...]:
    """Draw all figures into ``folder`` as .png files and return their paths.

    Raises
    ------
    InputError
        The folder cannot be made or written.
    """
    base = result.study.baselines[0].lower()
    drawn = {
        "attention-speedup": (f"attention_speedup_over_{base}", f"attention speed-up over {base}"),
        "attention-energy": (f"attention_energy_to_{base}", f"attention energy relative to {base}"),
        "end-to-end-speedup": (f"end_to_end_speedup_over_{base}", f"end-to-end speed-up over {base}"),
        "end-to-end-energy": (f"end_to_end_energy_to_{base}", f"end-to-end energy relative to {base}"),
    }
    pictures = {
        name: _bars(result, published, quantity, label, _ratio(result, quantity))
        for name, (quantity, label) in drawn.items()
    }
    pictures["use-2d"] = _bars(result, published, "util_2d", "use of the 2D array", lambda layer: layer.util_2d)
    pictures["use-1d"] = _bars(result, published, "util_1d", "use of the 1D array", lambda layer: layer.util_1d)
    pictures["sweep"] = _sweep(result, published)
    written = []
    for name, figure in pictures.items():
        file = folder / f"{name}.png"
        FigureCanvasAgg(figure)
        with writing(file, make_folder=True, otherwise="choose another folder") as stream:
            figure.savefig(stream, format="png", dpi=120, metadata={"Software": None})
        written.append(file)
    return tuple(written)
