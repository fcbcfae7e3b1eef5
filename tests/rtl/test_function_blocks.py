import random
from fractions import Fraction

import pytest
from amaranth.sim import Simulator

from accel.numerics import exp2_table, reciprocal_table
from rtl.exp2 import Exp2
from rtl.reciprocal import Reciprocal
from tests.rtl.softmax_reference import look_up, reciprocal


def run_pipeline(block, source, sink, values, *, gaps=0.0):
    """Send ``values`` through a block that never stalls; return the results and the cycles of both ends."""
    rhythm = random.Random(1)
    results, sent_at, seen_at = [], [], []

    async def drive(ctx):
        waiting, cycle = list(values), 0
        while len(results) < len(values):
            sending = bool(waiting) and rhythm.random() >= gaps
            ctx.set(source.valid, sending)
            if sending:
                ctx.set(source.payload, waiting.pop(0))
                sent_at.append(cycle)
            if ctx.get(sink.valid):
                results.append(ctx.get(sink.payload))
                seen_at.append(cycle)
            await ctx.tick()
            cycle += 1
            assert cycle < 10 * len(values) + 100, f"stream {block!r} gives no more results"

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return results, sent_at, seen_at


@pytest.mark.parametrize(("bits", "segments"), [(10, 1), (10, 512), (12, 16), (13, 64)])
def test_exp2_gives_the_bits_of_its_table_and_keeps_its_bound_for_every_argument(bits, segments):
    block = Exp2(segments=segments, argument_fraction_bits=bits, result_fraction_bits=bits)
    results, sent, seen = run_pipeline(block, block.argument, block.result, range(1 << bits))
    assert results == [look_up(block.table, code) for code in range(1 << bits)]
    assert [after - before for before, after in zip(sent, seen, strict=True)] == [block.latency_cycles] * len(sent)
    worst = max(abs(code / 2**bits - 2.0 ** (-u / 2**bits)) for u, code in enumerate(results))
    assert block.max_error / 4 < worst <= block.max_error


def test_exp2_keeps_gaps_between_its_arguments():
    block = Exp2(segments=8, argument_fraction_bits=8, result_fraction_bits=9)
    results, sent, seen = run_pipeline(block, block.argument, block.result, range(256), gaps=0.5)
    assert results == [look_up(block.table, code) for code in range(256)]
    assert [after - before for before, after in zip(sent, seen, strict=True)] == [3] * 256


def build_reciprocal(bits, value_bits, segments):
    guess_bits = bits // 2 + 3
    guess = reciprocal_table(segments=segments, argument_bits=bits, result_fraction_bits=guess_bits, guard_bits=2)
    return Reciprocal(value_bits=value_bits, fraction_bits=bits, guess=guess)


@pytest.mark.parametrize(("bits", "value_bits"), [(9, 10), (9, 12), (5, 12), (12, 13)])
def test_reciprocal_is_bit_exact_for_every_value(bits, value_bits):
    block = build_reciprocal(bits, value_bits, 8)
    values = range(1, 1 << value_bits)
    results, sent, seen = run_pipeline(block, block.value, block.result, values)
    assert [(result.exponent, result.mantissa) for result in results] == [
        reciprocal(value, bits, block.guess) for value in values
    ]
    assert [after - before for before, after in zip(sent, seen, strict=True)] == [block.latency_cycles] * len(sent)


@pytest.mark.parametrize(("bits", "segments"), [(9, 8), (12, 8), (17, 32)])
def test_reciprocal_keeps_its_stated_relative_error_in_exact_arithmetic(bits, segments):
    block = build_reciprocal(bits, bits + 3, segments)
    values = range(1, 1 << (bits + 3)) if bits < 17 else range(1, 1 << (bits + 3), 31)
    worst = Fraction(0)
    for value in values:
        exponent, mantissa = reciprocal(value, bits, block.guess)
        worst = max(worst, abs(Fraction(mantissa * value, 1 << (bits + exponent)) - 1))
    run_pipeline(block, block.value, block.result, [1])
    assert block.max_relative_error / 4 < worst <= block.max_relative_error


@pytest.mark.parametrize("segments", [32, 64, 256])
def test_the_softmax_sized_exp2_table_keeps_its_bound_for_every_argument(segments):
    table = exp2_table(segments=segments, argument_bits=17, result_fraction_bits=17, guard_bits=2)
    worst = max(abs(look_up(table, code) / 2**17 - 2.0 ** (-code / 2**17)) for code in range(1 << 17))
    assert table.max_error / 3 < worst <= table.max_error
