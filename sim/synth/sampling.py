"""Samples of synthesised blocks, made from a list of command lines, and a model tried on those kept out of its fit."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from accel.errors import InputError
from accel.fpga import QUANTITIES, CostModel, Sample
from rtl.synth import place_and_route, synthesise
from sim.synth.emission import emit_unit, family_of

__all__ = ["Request", "Trial", "read_requests", "take_samples", "try_model"]

_DESCRIBED = ("parameters", "derived", "input_format", "output_format")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One line of the list.

    Parameters
    ----------
    use : str
        ``fit`` or ``check``.
    place : bool
        Whether to place and route as well, where the target can.
    command : str
        Unit and options.
    """

    use: str
    place: bool
    command: str


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A prediction beside what synthesis found.

    Parameters
    ----------
    command : str
        The design.
    quantity : str
        One of ``QUANTITIES``.
    predicted, synthesised : float
        Both counts.
    extrapolated : bool
        Whether the design lies outside the samples' range.
    """

    command: str
    quantity: str
    predicted: float
    synthesised: float
    extrapolated: bool

    @property
    def error(self) -> float:
        """Relative error of the prediction; absolute where nothing was synthesised."""
        return (self.predicted - self.synthesised) / (self.synthesised or 1.0)


def read_requests(text: str, file: str) -> tuple[Request, ...]:
    """Return the requests of a list: ``fit`` or ``check``, perhaps ``place``, and a command line; # starts a comment.

    Raises
    ------
    InputError
        A line has another form.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        use, *rest = words
        place = rest[:1] == ["place"]
        command = rest[place:]
        if use not in ("fit", "check") or not command:
            raise InputError(
                f"{file}:{number}: a line must be 'fit' or 'check', perhaps 'place', and a unit with options, not "
                f"{line!r}"
            )
        found.append(Request(use=use, place=place, command=" ".join(command)))
    return tuple(found)


def take_samples(
    requests: Iterable[Request],
    target: str,
    *,
    cache: Path,
    jobs: int = 1,
    on_sample: Callable[[Sample], None] = lambda sample: None,
) -> tuple[Sample, ...]:
    """Synthesise what is requested, and return the samples in the order of the requests.

    Parameters
    ----------
    requests : iterable of Request
        What to synthesise.
    target : str
        FPGA family.
    cache : Path
        Folder of earlier results: what did not change is not synthesised again.
    jobs : int
        Syntheses at a time.
    on_sample : callable
        Called with each sample.

    Raises
    ------
    EinRTLError
        A unit cannot be built or synthesised.
    """
    # Units are built one after the other, as what they print is captured; the tools run beside it.
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_sampler(request, target, cache)) for request in requests]
        found = []
        for each in waiting:
            found.append(each.result())
            on_sample(found[-1])
    return tuple(found)


def _sampler(request: Request, target: str, cache: Path) -> Callable[[], Sample]:
    unit, *options = shlex.split(request.command)
    design = emit_unit(unit, options)

    def sample() -> Sample:
        resources = synthesise(design, target, cache=cache)
        placement = place_and_route(design, cache=cache) if request.place and target == "ecp5" else None
        tools = f"yosys {resources.yosys_version}"
        return Sample(
            command=request.command,
            use=request.use,
            unit=unit,
            family=family_of(design.description),
            counts={name: float(getattr(resources, name)) for name in QUANTITIES},
            fmax_mhz=None if placement is None else round(placement.fmax_mhz, 1),
            critical_path="" if placement is None else f"{placement.critical_from} -> {placement.critical_to}",
            latency_cycles=int(design.description["latency_cycles"]),
            tools=tools if placement is None else f"{tools}, nextpnr {placement.nextpnr_version}",
            verilog_sha256=hashlib.sha256(design.verilog.encode()).hexdigest(),
            description={key: design.description[key] for key in _DESCRIBED},
        )

    return sample


def try_model(model: CostModel, samples: Sequence[Sample]) -> tuple[Trial, ...]:
    """Return predictions beside synthesis for the samples that the fit did not see."""
    trials = []
    for sample in samples:
        if sample.use == "check":
            prediction = model.predict(sample.unit, sample.family, sample.description)
            trials += [
                Trial(
                    command=sample.command,
                    quantity=quantity,
                    predicted=prediction.counts[quantity],
                    synthesised=sample.counts[quantity],
                    extrapolated=bool(prediction.extrapolated),
                )
                for quantity in QUANTITIES
            ]
    return tuple(trials)
