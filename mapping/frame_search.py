"""The best design for a frame on a device: every design of a stated space, with a certificate of what was proved.

The space is a product of choices. A group shares all choices but those of attention; its bound is the time of its
frame with attention that costs nothing. No design of the group is faster, since a stage that ends later never lets the
frame end earlier. Groups come in the order of their bounds; once a bound is no better than the best design, the rest
is left out.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from accel.errors import InputError
from accel.fpga import Device, Shortage, shortages, smallest_fitting
from accel.frame import VisionTransformer
from accel.frame_design import FrameDesign, load_design
from mapping.frame import FrameResult, Stage, frame_stages, price_frame, schedule_stages
from mapping.frame_cost import FrameCost, dsp_per_mac, frame_cost

__all__ = ["FrameChoice", "FrameFloor", "FrameSearchResult", "FrameSpace", "evaluate_design", "search_frame"]

_ATTENTION_KINDS = ("attention", "attention scores", "attention outputs")
_REFERENCE = "edge-moe"
"""The design whose power was measured."""


@dataclass(frozen=True, kw_only=True)
class FrameSpace:
    """What a search chooses from; all combinations are considered.

    Parameters
    ----------
    bits : int
        Width of features and weights.
    tiles, slots, blocks, cores : tuple of int
        T of the linear unit; p, features a cycle, and number of attention cores.
    ports : tuple of int
        Widths of the memory port; those that the memory of the device cannot feed are left out.
    fused : tuple of bool
        Whether both products of attention have multipliers of their own, or share one set.
    activations_on_chip : tuple of bool
        Whether tokens stay on chip.
    memory_efficiency : float
        Share of the port's cycles that move data: an assumption, as refresh and turns of the bus take some.
    fill_cycles : int
        Of every stage: an assumption above the latency of each generated unit.
    most_used : float
        Share of every resource of the device that a design may take: an assumption, as fuller ones may not be routed.
    """

    bits: int
    tiles: tuple[int, ...] = (4, 8, 16, 32)
    slots: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    blocks: tuple[int, ...] = (4, 8, 16, 32, 64)
    cores: tuple[int, ...] = (1, 2, 3)
    ports: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    fused: tuple[bool, ...] = (True, False)
    activations_on_chip: tuple[bool, ...] = (True, False)
    memory_efficiency: float = 0.75
    fill_cycles: int = 100
    most_used: float = 0.8

    __pydantic_config__ = {"extra": "forbid"}

    def port_choices(self, device: Device) -> tuple[int, ...]:
        """Return the ports that the memory of the device feeds at its typical clock.

        Raises
        ------
        InputError
            The device names no memory, or feeds none of the ports.
        """
        if device.memory is None:
            raise InputError(
                f"device {device.name} must name its memory, as weights do not fit on chip",
                hint="add memory to its description, as zcu102.yaml has it",
            )
        most = device.memory.bandwidth_bits_per_s / device.typical_clock_hz
        fed = tuple(bits for bits in self.ports if bits <= most)
        if not fed:
            raise InputError(
                f"the memory of device {device.name} must feed {min(self.ports)} bits a cycle, not {most:.0f}",
                hint="give narrower ports",
            )
        return fed

    def dimensions(self, model: VisionTransformer, device: Device) -> Mapping[str, tuple[int | bool, ...]]:
        """Return every choice by the name of its field in ``FrameDesign``.

        Raises
        ------
        InputError
            As ``port_choices``.
        """
        return {
            "tile": self.tiles,
            "port_bits": self.port_choices(device),
            "activations_on_chip": self.activations_on_chip,
            "fused": self.fused,
            "slots": tuple(each for each in self.slots if each <= model.tokens),
            "block": tuple(each for each in self.blocks if model.head_dim % each == 0),
            "cores": tuple(each for each in self.cores if each <= model.heads),
        }


@dataclass(frozen=True, kw_only=True)
class FrameChoice:
    """A design that fits: its frame and what it takes.

    Parameters
    ----------
    result : FrameResult
        Time and traffic.
    cost : FrameCost
        Of the device.
    power_bound_w : float
        The power measured on the reference design, in proportion to the resource of which this one takes most more.
    """

    result: FrameResult
    cost: FrameCost
    power_bound_w: float

    @property
    def design(self) -> FrameDesign:
        """The design."""
        return self.result.design

    @property
    def energy_j(self) -> float:
        """Bound of the energy of a frame, J."""
        return self.power_bound_w * self.result.latency_s

    def value(self, objective: str) -> float:
        """Return what is minimised: latency, energy or edp."""
        latency_s = self.result.latency_s
        return {"latency": latency_s, "energy": self.energy_j, "edp": self.energy_j * latency_s}[objective]


@dataclass(frozen=True, kw_only=True)
class FrameFloor:
    """A time that no design of the space can go below.

    Parameters
    ----------
    resource : str
        What binds.
    latency_s : float
        Least time, s.
    """

    resource: str
    latency_s: float


@dataclass(frozen=True, kw_only=True)
class FrameSearchResult:
    """The best design, and what was proved.

    Parameters
    ----------
    space : FrameSpace
        What was searched.
    dimensions : mapping of str to tuple
        Its choices on this device.
    objective : str
        What was minimised.
    best : FrameChoice
        The best design; ties go to lower latency, then to fewer multipliers, then to the order of the space.
    points_considered, points_unfit, points_pruned, points_priced : int
        Designs in the space; those that do not fit the device; those that a bound left out; those that were priced.
    floors : tuple of FrameFloor
        By resource, over the whole space.
    """

    space: FrameSpace
    dimensions: Mapping[str, tuple[int | bool, ...]]
    objective: str
    best: FrameChoice
    points_considered: int
    points_unfit: int
    points_pruned: int
    points_priced: int
    floors: tuple[FrameFloor, ...]

    @property
    def lower_bound_s(self) -> float:
        """Time that no design of the space goes below; the best one's if time was minimised, as the search is exact."""
        if self.objective == "latency":
            return self.best.result.latency_s
        return max(each.latency_s for each in self.floors)

    @property
    def gap(self) -> float:
        """Latency of the best design above the highest floor, as a part of it."""
        return self.best.result.latency_s / max(each.latency_s for each in self.floors) - 1


def evaluate_design(model: VisionTransformer, design: FrameDesign, device: Device) -> FrameChoice:
    """Return the price of one design on a device.

    Raises
    ------
    InputError
        It does not fit; the message says what it lacks, and what would fit.
    """
    space = FrameSpace(bits=design.feature_bits, most_used=1.0)
    return _Search(model=model, device=device, space=space).evaluate(design)


def search_frame(
    model: VisionTransformer, device: Device, space: FrameSpace, *, objective: str = "latency"
) -> FrameSearchResult:
    """Return the best design of a space on a device.

    Parameters
    ----------
    model : VisionTransformer
        The workload.
    device : Device
        Its budget.
    space : FrameSpace
        What to choose from.
    objective : str
        ``latency``, ``energy`` or ``edp``.

    Raises
    ------
    InputError
        No design fits, or the device has no memory or no fitted model.
    """
    return _Search(model=model, device=device, space=space, objective=objective).run()


@dataclass(kw_only=True)
class _Search:
    """One search: what it is given, and its counts."""

    model: VisionTransformer
    device: Device
    space: FrameSpace
    objective: str = "latency"
    unfit: int = 0
    priced: int = 0
    costs: dict[tuple[object, ...], FrameCost] = field(default_factory=dict)
    nearest: tuple[float, FrameDesign, tuple[Shortage, ...]] | None = None

    @cached_property
    def budget(self) -> Device:
        """The device with as much of each resource as a design may take."""
        counts = {name: math.floor(self.space.most_used * count) for name, count in self.device.budget.items()}
        return dataclasses.replace(self.device, **counts)  # type: ignore[arg-type]  # all four are int

    @cached_property
    def reference(self) -> tuple[FrameDesign, FrameCost]:
        design = load_design(_REFERENCE)
        return design, frame_cost(self.model, design, self.device)

    def power_bound_w(self, design: FrameDesign, cost: FrameCost) -> float:
        """Return the measured power of the reference, all of it in proportion to the resource that grew most."""
        reference, taken = self.reference
        assert reference.measured_power_w is not None, "the reference design was measured"
        total, base = cost.total, taken.total
        ratios = [total[name] / base[name] for name in total] + [design.port_bits / reference.port_bits]
        return reference.measured_power_w * max(1.0, *ratios) * max(1.0, design.clock_hz / reference.clock_hz)

    def design(self, choices: Mapping[str, int | bool]) -> FrameDesign:
        space = self.space
        return FrameDesign(
            name=f"{self.model.name}-{self.device.name}-{space.bits}",
            source="found by einrtl map",
            clock_hz=self.device.typical_clock_hz,
            memory_efficiency=space.memory_efficiency,
            fill_cycles=space.fill_cycles,
            feature_bits=space.bits,
            weight_bits=space.bits,
            vector_lanes=int(choices["tile"]),
            keys_on_chip=True,
            **choices,  # type: ignore[arg-type]  # every name is a field, as dimensions says
        )

    def cost(self, design: FrameDesign) -> FrameCost:
        key = (design.tile, design.slots, design.block, design.cores, design.fused, design.activations_on_chip)
        if key not in self.costs:
            self.costs[key] = frame_cost(self.model, design, self.device)
        return self.costs[key]

    def choice(self, design: FrameDesign, cost: FrameCost) -> FrameChoice:
        result = price_frame(self.model, design)
        return FrameChoice(result=result, cost=cost, power_bound_w=self.power_bound_w(design, cost))

    def evaluate(self, design: FrameDesign) -> FrameChoice:
        cost = frame_cost(self.model, design, self.device)
        short = shortages(self.budget, cost.total)
        if short:
            raise self.does_not_fit(f"design {design.name}", design, cost, short)
        return self.choice(design, cost)

    def does_not_fit(self, what: str, design: FrameDesign, cost: FrameCost, short: tuple[Shortage, ...]) -> InputError:
        ways = [way for way in (self.smaller(design),) if way]
        share = "" if self.space.most_used == 1 else f"{self.space.most_used:.0%} of "
        other = smallest_fitting(self.device.target, cost.total)
        if other is not None:
            ways.append(f"it fits {other}")
        return InputError(
            f"{what} must fit {share}{self.device.name}, but takes {', '.join(map(str, short))}",
            hint="; ".join(ways) or "take fewer slots, a smaller tile or narrower numbers",
        )

    def smaller(self, design: FrameDesign) -> str | None:
        """Return the least change of one parameter by which a design fits."""
        for name in ("slots", "block", "tile", "cores"):
            for value in range(getattr(design, name) - 1, 0, -1):
                smaller = dataclasses.replace(design, **{name: value})  # type: ignore[arg-type]  # all four are int
                if not shortages(self.budget, frame_cost(self.model, smaller, self.device).total):
                    return f"with {name} {value} it fits"
        return None

    def bound(self, group: Mapping[str, int | bool]) -> float:
        """Return the time of a frame of the group with attention that costs nothing, s."""
        design = self.design({**group, "fused": True, "slots": 1, "block": 1, "cores": 1})
        stages = tuple(
            Stage(kind=each.kind, compute_cycles=0) if each.kind in _ATTENTION_KINDS else each
            for each in frame_stages(self.model, design)
        )
        return math.fsum(each.cycles for each in schedule_stages(stages, design)) / design.clock_hz

    def lower(self, latency_s: float) -> float:
        """Return the least value of the objective at a latency: power is never below the measured one."""
        power_w = self.reference[0].measured_power_w or 0.0
        return {"latency": latency_s, "energy": power_w * latency_s, "edp": power_w * latency_s**2}[self.objective]

    def run(self) -> FrameSearchResult:
        dimensions = self.space.dimensions(self.model, self.device)
        outer = ("tile", "port_bits", "activations_on_chip")
        inner = tuple(name for name in dimensions if name not in outer)
        groups = [dict(zip(outer, each, strict=True)) for each in itertools.product(*(dimensions[n] for n in outer))]
        bounds = {index: self.bound(group) for index, group in enumerate(groups)}
        size = math.prod(len(dimensions[name]) for name in inner)
        best: tuple[tuple[float, ...], FrameChoice] | None = None
        pruned = 0
        for index in sorted(bounds, key=lambda each: (bounds[each], each)):
            if best is not None and self.lower(bounds[index]) >= best[0][0]:
                pruned += size
                continue
            for choice in self.members(groups[index], inner, dimensions):
                key = (choice.value(self.objective), choice.result.latency_s, choice.cost.total["dsp_count"])
                if best is None or key < best[0]:
                    best = key, choice
        if best is None:
            raise self.nothing_fits()
        return FrameSearchResult(
            space=self.space,
            dimensions=dimensions,
            objective=self.objective,
            best=best[1],
            points_considered=size * len(groups),
            points_unfit=self.unfit,
            points_pruned=pruned,
            points_priced=self.priced,
            floors=self.floors(dimensions),
        )

    def members(
        self, group: Mapping[str, int | bool], inner: tuple[str, ...], dimensions: Mapping[str, tuple[int | bool, ...]]
    ) -> Iterator[FrameChoice]:
        for values in itertools.product(*(dimensions[name] for name in inner)):
            design = self.design({**group, **dict(zip(inner, values, strict=True))})
            cost = self.cost(design)
            short = shortages(self.budget, cost.total)
            if short:
                self.unfit += 1
                excess = max(each.needed / max(each.available, 1) for each in short)
                if self.nearest is None or excess < self.nearest[0]:
                    self.nearest = excess, design, short
                continue
            self.priced += 1
            yield self.choice(design, cost)

    def nothing_fits(self) -> InputError:
        assert self.nearest is not None, "a space without designs that fit holds designs that do not"
        _, design, short = self.nearest
        return self.does_not_fit("the smallest design of the space", design, self.cost(design), short)

    def floors(self, dimensions: Mapping[str, tuple[int | bool, ...]]) -> tuple[FrameFloor, ...]:
        """Return the least times by arithmetic, on as many multipliers as the device has, and by the port."""
        model, bits, clock_hz = self.model, self.space.bits, self.device.typical_clock_hz
        macs = self.device.dsp_count / dsp_per_mac(self.device, bits, bits)
        port = max(dimensions["port_bits"]) * self.space.memory_efficiency
        traffic = (model.weights + model.patches * model.patch_features) * bits
        return (
            FrameFloor(resource="multipliers", latency_s=sum(model.macs.values()) / macs / clock_hz),
            FrameFloor(resource="memory port", latency_s=traffic / port / clock_hz),
        )
