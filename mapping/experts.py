"""Traffic and cycles of a mixture of experts, token by token and expert by expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.block_cycles import layer_times
from accel.block_unit import BlockUnit, Experts, Linear
from accel.errors import InputError
from accel.expert_unit import expert_order, token_order

__all__ = ["OrderCost", "compare_orders", "even_counts", "expert_order_cost", "token_order_cost"]


@dataclass(frozen=True, kw_only=True)
class OrderCost:
    """What an order costs.

    Parameters
    ----------
    loads : int
        Experts whose weights are loaded, each as often as it is.
    weight_bits, bias_bits : int
        Loaded weights and biases.
    load_cycles : int
        Beats of both, which is what loading takes.
    step_cycles : int
        Steps of the linear unit: the same in both orders.
    cycles : int
        From the first layer being given to the idle unit to its last result being written, both counted.
    """

    loads: int
    weight_bits: int
    bias_bits: int
    load_cycles: int
    step_cycles: int
    cycles: int

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def utilisation(self) -> float:
        """Share of the cycles in which a step is taken."""
        return self.step_cycles / self.cycles


def _cost(unit: BlockUnit, layers: Sequence[Linear], ahead_cycles: int) -> OrderCost:
    linear = unit.linear
    times = layer_times(unit, layers, ahead_cycles=ahead_cycles)
    shapes = [(layer.in_features, layer.out_features) for layer in layers]
    return OrderCost(
        loads=len(layers) // 2,
        weight_bits=sum(inputs * outputs for inputs, outputs in shapes) * linear.weight_format.width_bits,
        bias_bits=sum(outputs for _, outputs in shapes) * linear.bias_bits,
        load_cycles=sum(linear.load_beats(*shape) for shape in shapes),
        step_cycles=sum(linear.cycles(layer.rows, *shape) for layer, shape in zip(layers, shapes, strict=True)),
        cycles=times[-1].end_cycle + 1,
    )


def expert_order_cost(unit: BlockUnit, each: Experts, counts: Sequence[int], *, ahead_cycles: int = 0) -> OrderCost:
    """Return the cost of working expert by expert.

    Parameters
    ----------
    unit : BlockUnit
        The hardware.
    each : Experts
        Sizes.
    counts : sequence of int
        Tokens of each expert; one without any is not loaded.
    ahead_cycles : int
        How long before its layer is given the loader knows it; 0 behind a gate, which must choose first.

    Raises
    ------
    InputError
        No expert has a token.
    """
    if not any(counts) or min(counts) < 0:
        raise InputError(f"counts must have a token for an expert, not {list(counts)}", hint="give what a gate chose")
    return _cost(
        unit, expert_order(each, [(expert, count) for expert, count in enumerate(counts) if count]), ahead_cycles
    )


def token_order_cost(unit: BlockUnit, each: Experts, pairs: int, *, ahead_cycles: int = 0) -> OrderCost:
    """Return the cost of working token by token.

    Parameters
    ----------
    unit : BlockUnit
        The hardware.
    each : Experts
        Sizes.
    pairs : int
        Pairs of a token and one of its experts.
    ahead_cycles : int
        As in ``expert_order_cost``.

    Raises
    ------
    InputError
        There is no pair.
    """
    if pairs < 1:
        raise InputError(f"pairs must be at least 1, not {pairs}", hint="a token has top_k of them")
    return _cost(unit, token_order(each, [0] * pairs), ahead_cycles)


def even_counts(tokens: int, top_k: int, experts: int) -> tuple[int, ...]:
    """Return the tokens of each expert if a gate spreads them as evenly as may be."""
    pairs = tokens * top_k
    return tuple(pairs // experts + (expert < pairs % experts) for expert in range(experts))


def compare_orders(unit: BlockUnit, each: Experts, counts: Sequence[int]) -> dict[str, OrderCost]:
    """Return the cost of both orders for the same choice: ``counts`` as in ``expert_order_cost``."""
    return {
        "token by token": token_order_cost(unit, each, sum(counts)),
        "expert by expert": expert_order_cost(unit, each, counts),
    }
