"""Programs of the block unit: their checks, and the numbers that the hardware reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.block_unit import (
    FIELDS,
    FLAGS,
    KINDS,
    Attend,
    BlockUnit,
    Experts,
    Gate,
    Linear,
    Load,
    LoadList,
    Normalise,
    Operation,
    Store,
)
from accel.errors import InputError

__all__ = ["check_program", "encode", "expert_layers", "strides"]


def strides(unit: BlockUnit, layer: Linear) -> tuple[int, int]:
    """Return the words from row to row of source and target of ``layer``."""
    return (
        layer.source_stride or unit.linear.blocks(layer.in_features),
        layer.target_stride or unit.linear.blocks(layer.out_features),
    )


def encode(unit: BlockUnit, program: Sequence[Operation]) -> list[int]:
    """Return the operations as the hardware reads them: a number of ``FIELDS`` each.

    Raises
    ------
    InputError
        The program is wrong (``check_program``).
    """
    check_program(unit, program)
    return [
        _packed(_fields(unit, each, program[index + 1] if index + 1 < len(program) else None))
        for index, each in enumerate(program)
    ]


def _packed(fields: dict[str, int]) -> int:
    return sum(fields.get(name, 0) << (16 * at) for at, name in enumerate(FIELDS))


def _fields(unit: BlockUnit, each: Operation, following: Operation | None) -> dict[str, int]:
    if isinstance(each, Linear):
        source_stride, target_stride = strides(unit, each)
        bits = {name: bool(getattr(each, name, False)) for name in FLAGS} | {
            "chained": each.after == "rows",
            "drained": each.after == "all",
            "feeds": isinstance(following, Linear) and following.after == "rows",
        }
        return {
            "kind": KINDS["linear"],
            "flags": sum(bits[name] << at for at, name in enumerate(FLAGS)),
            "source": each.source,
            "target": each.target,
            "rows": each.rows,
            "in_features": each.in_features,
            "out_features": each.out_features,
            "source_stride": source_stride,
            "target_stride": target_stride,
            "queue": each.queue,
        }
    if isinstance(each, Load):
        return {"kind": KINDS["load"], "target": each.target, "rows": each.words}
    if isinstance(each, Store):
        return {"kind": KINDS["store"], "source": each.source, "rows": each.words}
    if isinstance(each, LoadList):
        return {"kind": KINDS["load_list"], "queue": each.queue, "rows": each.entries}
    if isinstance(each, Normalise):
        return {
            "kind": KINDS["normalise"],
            "source": each.source,
            "target": each.target,
            "rows": each.rows,
            "in_features": each.features,
        }
    if isinstance(each, Attend):
        return {
            "kind": KINDS["attend"],
            "source": each.queries,
            "keys": each.keys,
            "values": each.values,
            "target": each.target,
            "rows": each.rows,
            "queue": each.heads,
            "source_stride": each.heads * unit.head_blocks,
        }
    if isinstance(each, Gate):
        return {"kind": KINDS["gate"], "source": each.source, "rows": each.rows}
    return {
        "kind": KINDS["experts"],
        "source": each.source,
        "keys": each.hidden,
        "target": each.target,
        "rows": 1,
        "in_features": each.in_features,
        "out_features": each.hidden_features,
        "source_stride": unit.linear.blocks(each.in_features),
        "target_stride": unit.linear.blocks(each.hidden_features),
    }


def expert_layers(each: Experts, expert: int, tokens: int, *, first: bool) -> tuple[Linear, Linear]:
    """Return the two layers of one expert with ``tokens`` tokens in its list.

    Parameters
    ----------
    each : Experts
        The operation.
    expert, tokens : int
        The list, and its length.
    first : bool
        No expert is before it.
    """
    return (
        Linear(
            source=each.source,
            target=each.hidden,
            rows=tokens,
            in_features=each.in_features,
            out_features=each.hidden_features,
            gather=True,
            queue=expert,
            activate=True,
            after="all" if first else "nothing",
        ),
        Linear(
            source=each.hidden,
            target=each.target,
            rows=tokens,
            in_features=each.hidden_features,
            out_features=each.in_features,
            scatter=True,
            queue=expert,
            accumulate=True,
            weighted=True,
            after="rows",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Region:
    """Words of the memory that an operation may touch."""

    start: int
    rows: int
    blocks: int
    stride: int

    @property
    def end(self) -> int:
        return self.start + (self.rows - 1) * self.stride + self.blocks

    def meets(self, other: _Region) -> bool:
        """Return whether a word may be in both: by first and last word, so that gaps count as touched."""
        return self.start < other.end and other.start < self.end


def check_program(unit: BlockUnit, program: Sequence[Operation]) -> None:
    """Check that the unit can do a program, and that no layer reads what may not be written yet.

    Raises
    ------
    InputError
        Names the operation, by its place from 0, and what is wrong with it.
    """
    flying: list[_Region] = []
    gated = False
    for place, each in enumerate(program):
        where = f"operation {place} ({type(each).__name__})"
        gated |= isinstance(each, Gate)
        if isinstance(each, Experts) and not gated and unit.gate is not None:
            raise InputError(f"{where} must come behind a Gate, which says who has work", hint="put a Gate before it")
        for region in _regions(unit, each, where):
            if region.start < 0 or region.end > unit.memory_words:
                raise InputError(
                    f"{where} must keep to the {unit.memory_words} words of the memory, "
                    f"not reach from {region.start} to {region.end - 1}",
                    hint="raise memory_words or move the region",
                )
        if not isinstance(each, Linear):
            flying = []
            continue
        source, target = _layer_regions(unit, each)
        if source.meets(target):
            raise InputError(
                f"{where} must not read words that it may write itself ({source.start} to {source.end - 1} and "
                f"{target.start} to {target.end - 1}; a list may name any row)",
                hint="move the target",
            )
        if each.after == "rows":
            _check_rows(unit, each, program[place - 1] if place else None, where)
        elif each.after == "all":
            flying = []
        elif any(source.meets(region) for region in flying):
            raise InputError(
                f"{where} must not read words that layers before it may still write, but says after 'nothing'",
                hint="use after 'all', or 'rows' where it reads the rows of the layer before",
            )
        flying.append(target)


def _range(where: str, name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(
            f"{name} of {where} must be from {low} to {high}, not {value}", hint=f"use {min(max(value, low), high)}"
        )


def _regions(unit: BlockUnit, each: Operation, where: str) -> list[_Region]:
    """Check what the unit must have for an operation; return the words that it touches for certain."""
    blocks = unit.linear.blocks
    if isinstance(each, Load | Store):
        _range(where, "words", each.words, 1, min(unit.memory_words, 65535))
        start = each.target if isinstance(each, Load) else each.source
        return [_Region(start=start, rows=1, blocks=each.words, stride=0)]
    if isinstance(each, LoadList):
        _range(where, "queue", each.queue, 0, unit.list_count - 1)
        _range(where, "entries", each.entries, 1, unit.max_rows)
        return []
    if isinstance(each, Linear):
        _check_layer(unit, each, where)
        regions = _layer_regions(unit, each)
        return [region for region, loose in zip(regions, (each.gather, each.scatter), strict=True) if not loose]
    part = {Normalise: "norm", Attend: "attention", Gate: "gate", Experts: "gate"}[type(each)]
    if getattr(unit, part) is None:
        raise InputError(f"{where} needs a unit with {part}, but it has none", hint=f"give {part}")
    if isinstance(each, Normalise):
        assert unit.norm is not None
        _range(where, "rows", each.rows, 1, unit.max_rows)
        _range(where, "features", each.features, 1, unit.norm.max_length)
        words = blocks(each.features)
        return [_Region(start=at, rows=each.rows, blocks=words, stride=words) for at in (each.source, each.target)]
    if isinstance(each, Attend):
        assert unit.attention is not None
        _range(where, "rows", each.rows, 1, min(unit.max_rows, unit.attention.max_length))
        _range(where, "heads", each.heads, 1, max(1, unit.max_stride // unit.head_blocks))
        words = each.heads * unit.head_blocks
        starts = (each.queries, each.keys, each.values, each.target)
        return [_Region(start=at, rows=each.rows, blocks=words, stride=words) for at in starts]
    assert unit.gate is not None
    if isinstance(each, Gate):
        _range(where, "rows", each.rows, 1, unit.max_rows)
        words = blocks(unit.gate.experts)
        return [_Region(start=each.source, rows=each.rows, blocks=words, stride=words)]
    for layer in expert_layers(each, 0, 1, first=True):
        _check_layer(unit, layer, where)
    words = blocks(each.hidden_features)
    return [_Region(start=each.hidden, rows=unit.max_rows, blocks=words, stride=words)]


def _check_layer(unit: BlockUnit, each: Linear, where: str) -> None:
    linear = unit.linear
    _range(where, "rows", each.rows, 1, unit.max_rows)
    for name in ("in_features", "out_features"):
        _range(where, name, getattr(each, name), 1, linear.max_features)
    for name, stride in zip(("source_stride", "target_stride"), strides(unit, each), strict=True):
        _range(where, name, stride, 1, unit.max_stride)
    _range(where, "queue", each.queue, 0, unit.list_count - 1)
    tiles = linear.row_cycles(each.in_features, each.out_features)
    if tiles > linear.weight_tiles:
        raise InputError(
            f"{where} must have at most {linear.weight_tiles} tiles of weights, not {tiles}",
            hint="raise weight_tiles or split the layer by outputs",
        )
    if each.after not in ("all", "rows", "nothing"):
        raise InputError(f"after of {where} must be all, rows or nothing, not {each.after!r}", hint="use 'all'")
    if each.activate and linear.activation is None:
        raise InputError(f"{where} needs a unit with an activation, but it has none", hint="give activation")
    if each.weighted and not (each.accumulate and (each.gather or each.scatter)):
        raise InputError(
            f"{where} must accumulate, and take its rows from a list, if it is weighted",
            hint="set accumulate, and gather or scatter",
        )


def _layer_regions(unit: BlockUnit, each: Linear) -> tuple[_Region, _Region]:
    """Return the words that a layer may read and write; a list may name any row."""
    blocks = unit.linear.blocks
    found = [
        _Region(start=start, rows=unit.max_rows if loose else each.rows, blocks=blocks(features), stride=stride)
        for start, loose, features, stride in zip(
            (each.source, each.target),
            (each.gather, each.scatter),
            (each.in_features, each.out_features),
            strides(unit, each),
            strict=True,
        )
    ]
    return found[0], found[1]


def _check_rows(unit: BlockUnit, each: Linear, before: Operation | None, where: str) -> None:
    """Check that row i of a layer reads row i of the one before, and nothing else of it."""
    right = (
        isinstance(before, Linear)
        and before.after != "rows"
        and not (each.gather or before.scatter)
        and (each.source, each.rows) == (before.target, before.rows)
        and strides(unit, each)[0] == strides(unit, before)[1]
        and unit.linear.blocks(each.in_features) <= unit.linear.blocks(before.out_features)
    )
    if not right:
        raise InputError(
            f"{where} comes after 'rows', so it must read, row for row, what the linear layer just before it writes, "
            "which must not come after 'rows' itself",
            hint="use after 'all'",
        )
