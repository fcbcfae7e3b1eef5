"""What users of the linear unit, the gate and the block unit are told when something is wrong: the exact texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.activation_unit import ActivationUnit
from accel.block_cycles import program_times
from accel.block_program import check_program
from accel.block_unit import Attend, BlockUnit, Experts, Gate, Linear, Load, LoadList, Normalise, Operation, Store
from accel.encoder_block import EncoderBlock
from accel.errors import InputError
from accel.gate_unit import GateUnit
from accel.linear_unit import LinearUnit
from accel.numerics import FixedPoint
from sim.golden.block import BlockData, run_block_program
from sim.golden.gate import gate
from sim.golden.linear import Layer, linear

FEATURES = FixedPoint.parse("s12f6,nearest_even,saturate")
WEIGHTS = FixedPoint.parse("s8f6,nearest_even,saturate")
GOOD: dict[str, object] = {
    "tile": 4,
    "max_features": 24,
    "weight_tiles": 12,
    "feature_format": FEATURES,
    "weight_format": WEIGHTS,
}
UNIT = BlockUnit(linear=LinearUnit(**GOOD), memory_words=64, max_rows=8, lists=2)  # type: ignore[arg-type]
LAYER = Linear(source=0, target=32, rows=8, in_features=12, out_features=12)


def told(action: Callable[[], object]) -> str:
    with pytest.raises(InputError) as found:
        action()
    return str(found.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tile": 3}, "tile must be a power of two from 2 to 32, not 3; use 2"),
        ({"tile": 64}, "tile must be a power of two from 2 to 32, not 64; use 32"),
        ({"max_features": 0}, "max_features must be from 1 to 16384, not 0; use 1"),
        ({"weight_tiles": 70000}, "weight_tiles must be from 1 to 65536, not 70000; use 65536"),
        ({"score_fraction_bits": 16}, "score_fraction_bits must be from 2 to 15, not 16; use 15"),
        (
            {"feature_format": FixedPoint.parse("u8f4,nearest_even,saturate")},
            "feature_format must be signed, not u8f4,nearest_even,saturate; use s9f4",
        ),
        (
            {"feature_format": FixedPoint.parse("s20f4,nearest_even,saturate")},
            "feature_format must have 4 to 18 bits, not 20; 16 bits suit most models",
        ),
        (
            {"weight_format": FixedPoint.parse("s8f-1,nearest_even,saturate")},
            "weight_format must have 0 to 24 fraction bits, not -1; scale the numbers nearer to 1",
        ),
        (
            {"feature_format": FixedPoint.parse("s8f4,nearest_even,wrap")},
            "feature_format must saturate, not wrap; use overflow 'saturate'",
        ),
        (
            {"weight_format": FixedPoint.parse("s8f6,truncate,saturate")},
            "weight_format must round to nearest, not truncate; use rounding 'nearest_even'",
        ),
    ],
)
def test_a_wrong_linear_unit(changes: dict[str, object], text: str) -> None:
    assert told(lambda: LinearUnit(**(GOOD | changes))) == text  # type: ignore[arg-type]


def test_an_activation_that_does_not_fit() -> None:
    other = FixedPoint.parse("s12f7,nearest_even,saturate")
    gelu = {"function": "gelu", "max_error": 2.0**-5, "output_format": FEATURES}
    wrong = ActivationUnit(**gelu, lanes=4, input_format=other)  # type: ignore[arg-type]
    narrow = ActivationUnit(**gelu, lanes=2, input_format=FEATURES)  # type: ignore[arg-type]
    assert told(lambda: LinearUnit(**GOOD, activation=wrong)) == (  # type: ignore[arg-type]
        "input_format of the activation must be feature_format (s12f6,nearest_even,saturate), "
        "not s12f7,nearest_even,saturate; give both the same format"
    )
    assert told(lambda: LinearUnit(**GOOD, activation=narrow)) == (  # type: ignore[arg-type]
        "lanes of the activation must be tile (4), not 2; use 4"
    )
    assert told(lambda: UNIT.linear.error(activate=True)) == (
        "activate needs an activation, which the unit has not; give it one"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"experts": 1}, "experts must be from 2 to 64, not 1; use 2"),
        ({"top_k": 5}, "top_k must be from 1 to 4, not 5; use 4"),
        ({"experts": 3, "top_k": 4}, "top_k must be from 1 to 3, not 4; use 3"),
        ({"score_fraction_bits": 4}, "score_fraction_bits must be from 5 to 15, not 4; use 5"),
        (
            {"logit_format": FixedPoint.parse("s3f1,nearest_even,saturate")},
            "logit_format must have 4 to 18 bits, not 3; 16 bits suit most models",
        ),
    ],
)
def test_a_wrong_gate(changes: dict[str, object], text: str) -> None:
    good: dict[str, object] = {"experts": 6, "top_k": 2, "logit_format": FEATURES}
    assert told(lambda: GateUnit(**(good | changes))) == text  # type: ignore[arg-type]


def test_a_wrong_block_unit() -> None:
    assert told(lambda: dataclasses.replace(UNIT, memory_words=1)) == (
        "memory_words must be from 2 to 65536, not 1; use 2"
    )
    gates = GateUnit(experts=4, top_k=1, logit_format=FixedPoint.parse("s8f4,nearest_even,saturate"))
    assert told(lambda: dataclasses.replace(UNIT, gate=gates)) == (
        "logit_format of the gate must be s12f6,nearest_even,saturate, as the linear unit's words ask, "
        "not s8f4,nearest_even,saturate; give both the same"
    )


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (
            [Load(target=60, words=9)],
            (
                "operation 0 (Load) must keep to the 64 words of the memory, not reach from 60 to 68; "
                "raise memory_words or move the region"
            ),
        ),
        ([Store(source=0, words=0)], "words of operation 0 (Store) must be from 1 to 64, not 0; use 1"),
        ([LoadList(queue=2, entries=1)], "queue of operation 0 (LoadList) must be from 0 to 1, not 2; use 1"),
        (
            [dataclasses.replace(LAYER, rows=9)],
            "rows of operation 0 (Linear) must be from 1 to 8, not 9; use 8",
        ),
        (
            [dataclasses.replace(LAYER, out_features=25)],
            "out_features of operation 0 (Linear) must be from 1 to 24, not 25; use 24",
        ),
        (
            [dataclasses.replace(LAYER, in_features=24, out_features=9, rows=1)],
            (
                "operation 0 (Linear) must have at most 12 tiles of weights, not 18; "
                "raise weight_tiles or split the layer by outputs"
            ),
        ),
        (
            [dataclasses.replace(LAYER, after="soon")],
            "after of operation 0 (Linear) must be all, rows or nothing, not 'soon'; use 'all'",
        ),
        (
            [dataclasses.replace(LAYER, activate=True)],
            "operation 0 (Linear) needs a unit with an activation, but it has none; give activation",
        ),
        (
            [dataclasses.replace(LAYER, weighted=True)],
            (
                "operation 0 (Linear) must accumulate, and take its rows from a list, if it is weighted; "
                "set accumulate, and gather or scatter"
            ),
        ),
        (
            [dataclasses.replace(LAYER, target=8)],
            (
                "operation 0 (Linear) must not read words that it may write itself (0 to 23 and 8 to 31; "
                "a list may name any row); move the target"
            ),
        ),
        (
            [LAYER, dataclasses.replace(LAYER, source=32, target=0, after="nothing")],
            (
                "operation 1 (Linear) must not read words that layers before it may still write, "
                "but says after 'nothing'; use after 'all', or 'rows' where it reads the rows of the layer before"
            ),
        ),
        (
            [LAYER, dataclasses.replace(LAYER, source=32, target=0, rows=7, after="rows")],
            (
                "operation 1 (Linear) comes after 'rows', so it must read, row for row, "
                "what the linear layer just before it writes, which must not come after 'rows' itself; use after 'all'"
            ),
        ),
        (
            [Normalise(source=0, target=0, rows=1, features=4)],
            "operation 0 (Normalise) needs a unit with norm, but it has none; give norm",
        ),
        (
            [Attend(queries=0, keys=0, values=0, target=0, rows=1, heads=1)],
            "operation 0 (Attend) needs a unit with attention, but it has none; give attention",
        ),
        ([Gate(source=0, rows=1)], "operation 0 (Gate) needs a unit with gate, but it has none; give gate"),
        (
            [Experts(source=0, hidden=0, target=0, in_features=4, hidden_features=4)],
            "operation 0 (Experts) needs a unit with gate, but it has none; give gate",
        ),
    ],
)
def test_a_wrong_program(program: list[Operation], text: str) -> None:
    assert told(lambda: check_program(UNIT, program)) == text


def test_a_program_whose_times_are_asked_wrongly() -> None:
    store = Store(source=0, words=1)
    assert told(lambda: program_times(UNIT, [store] * 33)) == (
        "a program with times must have 1 to 32 operations, not 33; split it: each part counts from its own first "
        "operation"
    )
    assert told(lambda: program_times(UNIT, [store], [()])) == (
        "chosen must have one entry for each of the 0 gate(s), not 1; take them from the golden model"
    )


def test_data_that_does_not_fit_the_program() -> None:
    def run(program: list[Operation], *features: np.ndarray, layers: tuple[Layer, ...] = ()) -> str:
        return told(lambda: run_block_program(UNIT, program, BlockData(features=features, layers=layers)))

    zeros = np.zeros((2, 4), np.int64)
    assert run([Load(target=0, words=3)], zeros) == (
        "the words of a Load must have the shape (3, 4), not (2, 4); as the operation says"
    )
    assert run([LoadList(queue=0, entries=2)], zeros) == (
        "the entries of a LoadList must have the shape (2, 2), not (2, 4); as the operation says"
    )
    assert run([LoadList(queue=0, entries=1)], np.array([[8, 0]])) == (
        "entries must be rows below 8 and scores from 0 to 32768, not up to 8 and 0; scores are codes; 1 is the largest"
    )
    assert run([LAYER]) == (
        "the data must have an entry for each Load, LoadList, Linear and Experts, but has fewer; "
        "give them in the order of the program"
    )
    small = Layer(weights=np.zeros((1, 2), np.int64), biases=np.zeros(1, np.int64))
    assert run([LAYER], layers=(small,)) == (
        "the weights of a Linear must have the shape (12, 12), not (1, 2); as the operation says"
    )
    right = Layer(weights=np.zeros((12, 12), np.int64), biases=np.zeros(12, np.int64))
    assert run([dataclasses.replace(LAYER, gather=True)], layers=(right,)) == (
        "list 0 must have 8 entries, not 0; load them first"
    )
    lists = np.array([[7, 0]] * 8)
    far = dataclasses.replace(LAYER, gather=True, source=48, target=0, target_stride=1, out_features=4, rows=1)
    narrow = Layer(weights=np.zeros((4, 12), np.int64), biases=np.zeros(4, np.int64))
    assert run([LoadList(queue=0, entries=8), far], lists, layers=(narrow,)) == (
        "a list names a row at word 69, beyond the 64 words of the memory; list rows that are there"
    )
    big = Layer(weights=np.full((1, 2), 128), biases=np.zeros(1, np.int64))
    assert told(lambda: linear(UNIT.linear, big, np.zeros((1, 2), np.int64))) == (
        "weights must have codes from -128 to 127, not 128 to 128; quantize them by s8f6,nearest_even,saturate"
    )
    assert told(lambda: linear(UNIT.linear, small, np.zeros((1, 3), np.int64))) == (
        "rows and biases must have the shapes (rows, 2) and (1,), not (1, 3) and (1,); as the weights have"
    )
    gates = GateUnit(experts=4, top_k=1, logit_format=FEATURES)
    assert told(lambda: gate(gates, np.zeros((2, 3), np.int64))) == (
        "logits must have the shape (tokens, 4), not (2, 3); one for each expert"
    )


def test_a_wrong_encoder_block() -> None:
    good = EncoderBlock(tokens=4, features=8, heads=2, hidden_features=8)
    assert told(lambda: dataclasses.replace(good, heads=3)) == (
        "features must be a multiple of heads (3), not 8; use 9"
    )
    assert told(lambda: dataclasses.replace(good, tokens=0)) == "tokens must be at least 1, not 0; use 1"
    assert told(lambda: good.memory(UNIT)) == (
        "an encoder block needs a unit with norm, attention, activation, but it has none; give them"
    )
    fitting = good.fitting_unit(tile=4, feature_format=FEATURES, weight_format=WEIGHTS)
    assert told(lambda: dataclasses.replace(good, tokens=5).memory(fitting)) == (
        "memory_words must be at least 70 for this block, not 56; use 70"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("linear", "--tile", "5"), "error: tile must be a power of two from 2 to 32, not 5; use 4\n"),
        (("linear", "--name", "begin"), "error: the name of a Verilog module must be a plain identifier, not 'begin'"),
        (
            ("encoder-block", "--features", "60", "--tile", "16"),
            "error: the features of a head (15) must be a multiple of tile (16); use heads of an even number of",
        ),
        (
            ("encoder-block", "--features", "48", "--heads", "4"),
            "error: the features of a head (12) must be a multiple of tile (16); use tile 4\n",
        ),
        (("encoder-block", "--heads", "0"), "error: heads must be at least 1, not 0; use 1\n"),
    ],
)
def test_a_wrong_command(arguments: tuple[str, ...], text: str, einrtl: Callable[..., object], tmp_path: Path) -> None:
    done = einrtl("rtl", *arguments, "-o", tmp_path)
    assert done.code == 2
    assert text in done.err
