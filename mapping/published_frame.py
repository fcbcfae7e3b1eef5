"""What was published with Edge-MoE beside what the frame model computes; nothing is computed from a published value.

The one exception is named where it is shown: where the model has no way to know how slow a replaced part was, the
figure that the published saving implies stands in the note, and in no result.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from accel.errors import InputError
from accel.frame import VisionTransformer
from accel.frame_design import AttentionOrder, ExpertOrder, FrameDesign, Prefetch
from accel.reordered_schedule import AttentionJob
from mapping.frame import FrameResult, frame_stages, price_frame
from mapping.reordered import reordered_cost, unordered_cost

__all__ = [
    "Beyond",
    "FramePublished",
    "Row",
    "ablation",
    "beyond",
    "load_frame_published",
    "reproduce_frame",
]

_LENGTHS = ((128, 4), (129, 4), (129, 8), (129, 16), (129, 3), (197, 4), (197, 16))
_LINEAR = ("patch embedding", "projections", "dense layers", "gate", "experts")
_ATTENTION = ("attention scores", "attention outputs")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One quantity, ours and theirs.

    Parameters
    ----------
    section, quantity, unit : str
        Where it belongs, what it is, and in which unit; ratios have none.
    ours : float or None
        As computed; None where the model says nothing.
    reference : float or None
        As published, or counted from the public design.
    kind : str
        ``published``, ``counted`` or ``formula``: what the reference is; empty without one.
    note : str
        Why ours must differ, or what is not derived.
    """

    section: str
    quantity: str
    unit: str
    ours: float | None
    reference: float | None
    kind: str = ""
    note: str = ""

    @property
    def relative_error(self) -> float | None:
        """Ours over the reference, less one."""
        return None if self.ours is None or not self.reference else self.ours / self.reference - 1


@dataclass(frozen=True, kw_only=True)
class FramePublished:
    """The files of the publication.

    Parameters
    ----------
    values : mapping of str to (float, str)
        Quantity to its value and what it is.
    ablation_ms : mapping of str to float
        Step to the time of a frame after it.
    platforms : mapping of str to (float, float)
        Platform to its time in ms and its power in W.
    later : mapping of (str, str) to (float, float)
        Later design and device to its throughput and its energy efficiency over Edge-MoE's.
    """

    values: Mapping[str, tuple[float, str]]
    ablation_ms: Mapping[str, float]
    platforms: Mapping[str, tuple[float, float]]
    later: Mapping[tuple[str, str], tuple[float, float]]


def _rows(folder: Path | None, name: str) -> Iterator[dict[str, str]]:
    packaged = files("accel") / "data" / "published" / "edge-moe" / name
    try:
        text = packaged.read_text(encoding="utf-8") if folder is None else (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{name} must be a readable file: {error.strerror}", hint="check the folder") from None
    yield from csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def load_frame_published(folder: Path | None = None) -> FramePublished:
    """Return what was published with Edge-MoE, from its packaged files or those of ``folder``.

    Raises
    ------
    InputError
        A file is missing.
    """
    return FramePublished(
        values={row["quantity"]: (float(row["value"]), row["kind"]) for row in _rows(folder, "values.csv")},
        ablation_ms={row["step"]: float(row["total_ms"]) for row in _rows(folder, "ablation.csv")},
        platforms={
            row["platform"]: (float(row["latency_ms"]), float(row["power_w"])) for row in _rows(folder, "platforms.csv")
        },
        later={
            (row["design"], row["device"]): (float(row["throughput_ratio"]), float(row["energy_efficiency_ratio"]))
            for row in _rows(folder, "later.csv")
        },
    )


def reproduce_frame(model: VisionTransformer, design: FrameDesign, published: FramePublished) -> tuple[Row, ...]:
    """Return every quantity beside what was published."""
    return (
        *_orders(),
        *_attention(model, design, published),
        *_experts(model, design, published),
        *_frame(model, design, published),
        *ablation(model, design, published),
        *_energy(model, design, published),
    )


def _orders() -> Iterator[Row]:
    """Yield counts of both orders beside the formulas of the paper's Table I, which hold where p divides N."""
    for tokens, slots in _LENGTHS:
        job = AttentionJob(queries=tokens, keys=tokens)
        even, where = tokens % slots == 0, f"N = {tokens}, p = {slots}"
        partial = "" if even else "p does not divide N: the last pass has empty slots"
        new, old = reordered_cost(slots, job), unordered_cost(slots, job)
        for name, ours, formula, note in (
            ("iterations, reordered", new.iterations, tokens**2 / slots + slots - 1, partial),
            ("iterations, unordered", old.iterations, tokens**2 / slots, partial and "a row's last step is not full"),
            ("loads, reordered", new.loads, tokens**2 / slots + tokens + slots - 1, partial),
            ("loads, unordered", old.loads, tokens**2 + tokens, ""),
            ("keys an iteration, reordered", new.keys_per_iteration, 1, ""),
            ("keys an iteration, unordered", old.keys_per_iteration, slots, ""),
        ):
            yield Row(
                section="Orders of attention (rows of Q and K)",
                quantity=f"{name}, {where}",
                unit="",
                ours=ours,
                reference=formula,
                kind="formula",
                note=note,
            )


def _stream_s(model: VisionTransformer, design: FrameDesign) -> float:
    """Return the time in which keys and values stream past the slots, nothing else being on the port, s."""
    order = reordered_cost(design.slots, AttentionJob(queries=model.tokens, keys=model.tokens))
    compute = model.heads * -(-model.head_dim // design.block)
    port = model.attention_width * design.feature_bits / design.port_bits_per_cycle
    return 2 * len(model.feed_forwards) * order.iterations * max(compute, port) / design.clock_hz


def _attention(model: VisionTransformer, design: FrameDesign, published: FramePublished) -> Iterator[Row]:
    section = "Attention of all blocks"
    for bits in (256, 128):
        key = f"attention at {bits} bits"
        value, kind = published.values[key]
        changed = dataclasses.replace(design, port_bits=bits)
        yield Row(
            section=section,
            quantity=f"keys and values streaming, {bits}-bit port",
            unit="ms",
            ours=1e3 * _stream_s(model, changed),
            reference=value,
            kind=kind,
        )
        result = price_frame(model, changed)
        cycles = sum(sum(result.by_kind()[name]) for name in _ATTENTION)
        yield Row(
            section=section,
            quantity=f"with queries and scores on the port, {bits} bits",
            unit="ms",
            ours=1e3 * cycles / design.clock_hz,
            reference=None,
        )


def _experts(model: VisionTransformer, design: FrameDesign, published: FramePublished) -> Iterator[Row]:
    section = "One expert layer"
    layers = sum(layer.is_moe for layer in model.feed_forwards)
    by_expert = price_frame(model, design)
    by_token = price_frame(model, dataclasses.replace(design, expert_order=ExpertOrder.BY_TOKEN))

    def load_bits(result: FrameResult) -> float:
        return sum(each.stage.weight_bits for each in result.stages if each.stage.kind == "experts") / layers

    for key, unit, ours in (
        ("linear cycles of an expert layer", "cycles", by_expert.compute_cycles("experts") / layers),
        ("load cycles of an expert layer at 256 bits", "cycles", load_bits(by_expert) / 256),
        ("weights of an expert layer by expert", "MB", load_bits(by_expert) / 8e6),
        ("weights of an expert layer by token", "MB", load_bits(by_token) / 8e6),
    ):
        value, kind = published.values[key]
        yield Row(section=section, quantity=key, unit=unit, ours=ours, reference=value, kind=kind)


def _frame(model: VisionTransformer, design: FrameDesign, published: FramePublished) -> Iterator[Row]:
    section = "The frame"
    result = price_frame(model, design)
    value, kind = published.values["frame"]
    yield Row(
        section=section,
        quantity="frame",
        unit="ms",
        ours=1e3 * result.latency_s,
        reference=value,
        kind=kind,
        note="in the model no stage waits for memory beyond the width of the port, and none has a pipeline to fill",
    )
    hidden = price_frame(model, dataclasses.replace(design, prefetch=Prefetch.ALL))
    yield Row(
        section=section,
        quantity="frame, if all loads of weights were hidden",
        unit="ms",
        ours=1e3 * hidden.latency_s,
        reference=value,
        kind=kind,
        note="the paper does not say which loads are hidden but those of experts",
    )
    kinds = result.by_kind()
    cycles = {name: work + wait for name, (work, wait) in kinds.items()}
    late = sum(wait for name, (_, wait) in kinds.items() if name != "experts")
    linear = sum(cycles[name] for name in _LINEAR)
    for key, quantity, part, note in (
        ("attention", "share of attention", sum(cycles[name] for name in _ATTENTION), "the paper says half"),
        ("linear layers", "share of linear layers, all waiting included", linear, "the paper does not say what counts"),
        ("linear layers", "share of linear layers, waiting for experts included", linear - late, ""),
    ):
        given, what = published.values[f"share of {key} in the frame"]
        share = part / result.latency_cycles
        yield Row(section=section, quantity=quantity, unit="", ours=share, reference=given, kind=what, note=note)
    for name, (work, wait) in kinds.items():
        yield Row(
            section=section,
            quantity=f"of it {name}",
            unit="ms",
            ours=1e3 * (work + wait) / design.clock_hz,
            reference=None,
            note=f"{1e3 * wait / design.clock_hz:.2f} ms of it waiting for weights" if wait else "",
        )


def ablation(model: VisionTransformer, design: FrameDesign, published: FramePublished) -> Iterator[Row]:
    """Yield what each step of the cumulative ablation saves: as the model has it, or that it has no way to know.

    The paper does not describe the parts that steps two to four replace. What their savings imply about those parts is
    told in notes.
    """
    totals = list(published.ablation_ms.items())
    frame_ms = 1e3 * price_frame(model, design).latency_s
    by_token = dataclasses.replace(design, expert_order=ExpertOrder.BY_TOKEN)
    unordered = dataclasses.replace(design, attention_order=AttentionOrder.UNORDERED)
    derived = {
        "expert by expert": 1e3 * price_frame(model, by_token).latency_s - frame_ms,
        "both reorderings of attention": 1e3 * price_frame(model, unordered).latency_s - frame_ms,
    }
    notes = {
        "expert by expert": "the port at its full width; the published saving implies {share:.0%} of it",
        "single-pass softmax": "not derived: the softmax before is not described; implied: {score:.1f} cycles a score",
        "table GELU": "not derived: the GELU before is not described; implied: {activation:.1f} cycles a result",
        "unified linear unit": "not derived: the units before are not described; implied: {macs:.1f} MAC/cycle",
        "both reorderings of attention": "the port at its full width, loads hidden behind the arithmetic",
    }
    section = "Cumulative ablation: saved by each step"
    for (_, before), (step, after) in itertools.pairwise(totals):
        saving = before - after
        yield Row(
            section=section,
            quantity=step,
            unit="ms",
            ours=derived.get(step),
            reference=saving,
            kind="published",
            note=notes[step].format(**_implied(model, design, saving, derived["expert by expert"])),
        )
    yield Row(
        section=section,
        quantity="frame after all steps",
        unit="ms",
        ours=frame_ms,
        reference=totals[-1][1],
        kind="published",
    )


def _implied(model: VisionTransformer, design: FrameDesign, saving_ms: float, experts_ms: float) -> dict[str, float]:
    """Return what a saving would mean for the part that a step replaced."""
    cycles = saving_ms * 1e-3 * design.clock_hz
    tokens, layers = model.tokens, model.feed_forwards
    linear = sum(each.compute_cycles for each in frame_stages(model, design) if each.kind in _LINEAR)
    macs = sum(count for kind, count in model.macs.items() if kind != "attention")
    return {
        "share": experts_ms / saving_ms,
        "score": cycles / (len(layers) * model.heads * tokens**2),
        "activation": cycles / sum(tokens * layer.chosen * layer.hidden for layer in layers),
        "macs": macs / (cycles + linear),
    }


def _energy(model: VisionTransformer, design: FrameDesign, published: FramePublished) -> Iterator[Row]:
    if design.measured_power_w is None:
        return
    section = "Energy of a frame"
    first, *others = published.platforms.items()
    ours_j = price_frame(model, design).latency_s * design.measured_power_w
    theirs_j = first[1][0] * first[1][1] / 1e3
    measured = "power is measured, not modelled: the error is that of the time"
    yield Row(
        section=section, quantity=first[0], unit="J", ours=ours_j, reference=theirs_j, kind="published", note=measured
    )
    for name, (latency_ms, power_w) in others:
        energy_j = latency_ms * power_w / 1e3
        yield Row(
            section=section,
            quantity=f"{name} over it",
            unit="",
            ours=energy_j / ours_j,
            reference=energy_j / theirs_j,
            kind="published",
            note="numerator as published",
        )


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """A published design beside one of ours on the same device.

    Parameters
    ----------
    name : str
        The published design.
    latency_ms, energy_j : float
        Of a frame, as published or as a published ratio gives it.
    ours_ms, ours_j : float
        Of a frame, by the model; energy is a bound.
    note : str
        Where theirs come from.
    """

    name: str
    latency_ms: float
    energy_j: float
    ours_ms: float
    ours_j: float
    note: str

    @property
    def speedup(self) -> float:
        """How much faster ours is."""
        return self.latency_ms / self.ours_ms

    @property
    def energy_ratio(self) -> float:
        """Our energy over theirs."""
        return self.ours_j / self.energy_j

    def as_json(self) -> dict[str, float | str]:
        """Return all fields and both ratios."""
        return dataclasses.asdict(self) | {"speedup": self.speedup, "energy_ratio": self.energy_ratio}


def beyond(model: VisionTransformer, device: str, latency_s: float, energy_j: float) -> tuple[Beyond, ...]:
    """Return the published designs for a workload on a device beside one of ours; none if none was published."""
    published = load_frame_published()
    if model.name != "m3vit" or device != "zcu102":
        return ()
    (name, (latency_ms, power_w)), *_ = published.platforms.items()
    theirs_j = latency_ms * power_w / 1e3
    ours = {"ours_ms": 1e3 * latency_s, "ours_j": energy_j}
    found = [Beyond(name=name, latency_ms=latency_ms, energy_j=theirs_j, note="published", **ours)]
    for (later, where), (throughput, efficiency) in published.later.items():
        if where == device:
            found.append(
                Beyond(
                    name=later,
                    latency_ms=latency_ms / throughput,
                    energy_j=theirs_j / efficiency,
                    note="Edge-MoE's over the published ratios",
                    **ours,
                )
            )
    return tuple(found)
