"""The time and the traffic of one frame of a vision transformer on a design, stage by stage.

Stages follow each other. A stage takes as long as the slowest of its arithmetic, its reads and its writes (the port
moves its width in each direction in a cycle), and ``fill_cycles`` on top. There are two banks of weights: while one is
in use the other is loaded, where the design says so, in the cycles in which the port reads nothing else; what is
missing when its stage comes is waited for. Nothing here reads a published result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accel.frame import FeedForward, VisionTransformer
from accel.frame_design import AttentionOrder, ExpertOrder, FrameDesign, Prefetch
from accel.reordered_schedule import AttentionJob
from mapping.reordered import OrderCost, reordered_cost, unordered_cost

__all__ = [
    "FrameResult",
    "Stage",
    "StageTime",
    "attention_order",
    "frame_stages",
    "linear_cycles",
    "price_frame",
    "resident_tokens",
    "schedule_stages",
]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of a frame.

    Parameters
    ----------
    kind : str
        What it does; stages of one kind are summed in reports.
    compute_cycles : int
        Cycles of its arithmetic.
    read_bits, write_bits : int
        Features and scores through the port.
    weight_bits : int
        Weights that it needs before it starts.
    """

    kind: str
    compute_cycles: int
    read_bits: int = 0
    write_bits: int = 0
    weight_bits: int = 0


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """When a stage runs, in cycles.

    Parameters
    ----------
    stage : Stage
        Which.
    wait_cycles : float
        For weights, before it starts.
    work_cycles : float
        From its start to its end.
    """

    stage: Stage
    wait_cycles: float
    work_cycles: float

    @property
    def cycles(self) -> float:
        """Wait and work."""
        return self.wait_cycles + self.work_cycles


@dataclass(frozen=True, kw_only=True)
class FrameResult:
    """The price of a frame.

    Parameters
    ----------
    model : VisionTransformer
        The workload.
    design : FrameDesign
        The design.
    stages : tuple of StageTime
        In their order.
    """

    model: VisionTransformer
    design: FrameDesign
    stages: tuple[StageTime, ...]

    @property
    def latency_cycles(self) -> float:
        """Cycles of the frame."""
        return math.fsum(each.cycles for each in self.stages)

    @property
    def latency_s(self) -> float:
        """Time of the frame, s."""
        return self.latency_cycles / self.design.clock_hz

    @property
    def weight_bits(self) -> int:
        """Weights through the port."""
        return sum(each.stage.weight_bits for each in self.stages)

    @property
    def traffic_bits(self) -> int:
        """All bits through the port, both directions together."""
        return self.weight_bits + sum(each.stage.read_bits + each.stage.write_bits for each in self.stages)

    def by_kind(self) -> Mapping[str, tuple[float, float]]:
        """Return the cycles of work and of waiting of each kind of stage, in the order of their first coming."""
        found: dict[str, tuple[float, float]] = {}
        for each in self.stages:
            work, wait = found.get(each.stage.kind, (0.0, 0.0))
            found[each.stage.kind] = (work + each.work_cycles, wait + each.wait_cycles)
        return found

    def compute_cycles(self, *kinds: str) -> int:
        """Return the cycles of arithmetic of some kinds of stage."""
        return sum(each.stage.compute_cycles for each in self.stages if each.stage.kind in kinds)


def linear_cycles(rows: int, in_features: int, out_features: int, tile: int) -> int:
    """Return the steps of a linear layer on T x T multipliers: one for each row and tile of weights."""
    return rows * -(-in_features // tile) * -(-out_features // tile)


def attention_order(design: FrameDesign, tokens: int) -> OrderCost:
    """Return iterations and loads of one head of self-attention over ``tokens`` tokens."""
    job = AttentionJob(queries=tokens, keys=tokens)
    cost = reordered_cost if design.attention_order is AttentionOrder.REORDERED else unordered_cost
    return cost(design.slots, job)


class _Layers:
    """The stages of one model on one design."""

    def __init__(self, model: VisionTransformer, design: FrameDesign) -> None:
        self.model, self.design = model, design
        self.token_bits = model.width * design.feature_bits

    def through_port(self, tokens: float, features: int) -> int:
        """Return the bits of a tensor that a stage reads or writes: none if tokens stay on chip."""
        return 0 if self.design.activations_on_chip else round(tokens * features * self.design.feature_bits)

    def linear(self, kind: str, rows: int, in_features: int, out_features: int, *, accumulate: bool = False) -> Stage:
        old = self.through_port(rows, out_features) if accumulate else 0
        return Stage(
            kind=kind,
            compute_cycles=linear_cycles(rows, in_features, out_features, self.design.tile),
            read_bits=self.through_port(rows, in_features) + old,
            write_bits=self.through_port(rows, out_features),
            weight_bits=in_features * out_features * self.design.weight_bits,
        )

    def vector(self, kind: str, inputs: int) -> Stage:
        tokens, width = self.model.tokens, self.model.width
        return Stage(
            kind=kind,
            compute_cycles=tokens * -(-width // self.design.vector_lanes),
            read_bits=inputs * self.through_port(tokens, width),
            write_bits=self.through_port(tokens, width),
        )

    def patches(self) -> Stage:
        model, bits = self.model, self.design.feature_bits
        stage = self.linear("patch embedding", model.patches, model.patch_features, model.width)
        return Stage(
            kind=stage.kind,
            compute_cycles=stage.compute_cycles,
            read_bits=model.patches * model.patch_features * bits,  # the image comes from outside
            write_bits=stage.write_bits,
            weight_bits=stage.weight_bits,
        )

    def attention(self) -> tuple[Stage, ...]:
        model, design = self.model, self.design
        tokens, width = model.tokens, model.attention_width
        order = attention_order(design, tokens)
        heads = -(-model.heads // design.cores)
        one = heads * order.iterations * -(-model.head_dim // design.block)
        whole = self.through_port(tokens, width)
        if design.keys_on_chip:
            # K and V of the first head are loaded before it starts, those of the others behind it.
            one += heads + tokens * -(-model.head_dim // design.block)
            streamed = whole
        else:
            streamed = order.key_loads * width * design.feature_bits
        if design.fused:
            stage = Stage(
                kind="attention",
                compute_cycles=one,
                read_bits=whole + 2 * streamed,
                write_bits=self.through_port(tokens, width),
            )
            return (stage,)
        scores = model.heads * tokens**2 * design.feature_bits
        return (
            Stage(kind="attention scores", compute_cycles=one, read_bits=whole + streamed, write_bits=scores),
            Stage(kind="attention outputs", compute_cycles=one, read_bits=streamed + scores, write_bits=whole),
        )

    def expert_loads(self, layer: FeedForward) -> Iterator[int]:
        """Yield the tokens that each load of an expert serves; tokens are spread evenly over the experts."""
        visits = self.model.tokens * layer.chosen
        if self.design.expert_order is ExpertOrder.BY_TOKEN:
            yield from (1 for _ in range(visits))
            return
        for index in range(layer.experts):
            tokens = (visits * (index + 1)) // layer.experts - (visits * index) // layer.experts
            if tokens:
                yield tokens

    def experts(self, layer: FeedForward) -> Iterator[Stage]:
        width, hidden = self.model.width, layer.hidden
        yield self.linear("gate", self.model.tokens, width, layer.experts)
        for tokens in self.expert_loads(layer):
            up = self.linear("experts", tokens, width, hidden)
            down = self.linear("experts", tokens, hidden, width, accumulate=True)
            yield Stage(
                kind="experts",
                compute_cycles=up.compute_cycles + down.compute_cycles,
                read_bits=up.read_bits + down.read_bits,
                write_bits=up.write_bits + down.write_bits,
                weight_bits=up.weight_bits + down.weight_bits,
            )

    def block(self, layer: FeedForward) -> Iterator[Stage]:
        model = self.model
        tokens, width, inner = model.tokens, model.width, model.attention_width
        yield self.vector("normalisation", 1)
        for _ in range(3):
            yield self.linear("projections", tokens, width, inner)
        yield from self.attention()
        yield self.linear("projections", tokens, inner, width)
        yield self.vector("addition", 2)
        yield self.vector("normalisation", 1)
        if layer.is_moe:
            yield from self.experts(layer)
        else:
            yield self.linear("dense layers", tokens, width, layer.hidden)
            yield self.linear("dense layers", tokens, layer.hidden, width)
        yield self.vector("addition", 2)


def frame_stages(model: VisionTransformer, design: FrameDesign) -> tuple[Stage, ...]:
    """Return the stages of a frame in their order."""
    layers = _Layers(model, design)
    found = [layers.patches()]
    blocks = {layer: tuple(layers.block(layer)) for layer in dict.fromkeys(model.feed_forwards)}
    for layer in model.feed_forwards:
        found += blocks[layer]
    if design.activations_on_chip:  # the result leaves
        bits = model.tokens * model.width * design.feature_bits
        found.append(Stage(kind="output", compute_cycles=0, write_bits=bits))
    return tuple(found)


def schedule_stages(stages: Sequence[Stage], design: FrameDesign) -> tuple[StageTime, ...]:
    """Return when the stages run one after the other, weights loaded early as the design says."""
    rate = design.port_bits_per_cycle
    loaded = 0.0  # bits of the next weights that are in the free bank
    following: list[Stage | None] = [None] * len(stages)
    coming: Stage | None = None
    for index in reversed(range(len(stages))):
        following[index] = coming
        coming = stages[index] if stages[index].weight_bits else coming
    found = []
    for stage, after in zip(stages, following, strict=True):
        wait = 0.0
        if stage.weight_bits:
            wait, loaded = max(stage.weight_bits - loaded, 0.0) / rate, 0.0
        work = max(stage.compute_cycles, stage.read_bits / rate, stage.write_bits / rate) + design.fill_cycles
        if after is not None and _early(design, stage, after):
            loaded = min(float(after.weight_bits), loaded + work * rate - stage.read_bits)
        found.append(StageTime(stage=stage, wait_cycles=wait, work_cycles=work))
    return tuple(found)


def _early(design: FrameDesign, stage: Stage, after: Stage) -> bool:
    """Return whether the weights of ``after`` are loaded while ``stage`` works."""
    if design.prefetch is Prefetch.EXPERTS:
        return stage.kind == after.kind == "experts"
    return design.prefetch is Prefetch.ALL


def price_frame(model: VisionTransformer, design: FrameDesign) -> FrameResult:
    """Return the time and the traffic of one frame."""
    return FrameResult(model=model, design=design, stages=schedule_stages(frame_stages(model, design), design))


def resident_tokens(model: VisionTransformer) -> int:
    """Return the features of a token that are kept at once where activations stay on chip.

    The token itself, its normalised form (over which the attended values are written), its query, key and value, and
    the hidden features of the widest feed-forward layer.
    """
    widest = max(layer.hidden for layer in model.feed_forwards)
    return 2 * model.width + 3 * model.attention_width + widest
