import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.arith import tree_stages
from rtl.softmax import Softmax, softmax_contract
from tests.rtl.softmax_reference import Softmax as Reference
from tests.rtl.stream_bench import Bench, StalledError, always, often

INPUT, OUTPUT = "s16f10,nearest_even,saturate", "u16f16,nearest_up,saturate"


def make_unit(lanes=1, max_length=24, source=INPUT, target=OUTPUT, exp_segments=64, keep_row_sum=True):
    return SoftmaxUnit(
        max_length=max_length,
        lanes=lanes,
        input_format=FixedPoint.parse(source),
        output_format=FixedPoint.parse(target),
        exp_segments=exp_segments,
        keep_row_sum=keep_row_sum,
    )


def random_rows(unit, source, count, *, lengths=None, spread=None, missing=0.15):
    """Return rows of random scores, some lanes and some whole beats of them without a score."""
    code_range = unit.input_format.min_code, unit.input_format.max_code
    rows = []
    for _ in range(count):
        beats = source.choice(
            lengths or [1, 1, min(2, unit.max_beats), source.randint(1, unit.max_beats), unit.max_beats]
        )
        middle, width = source.randint(*code_range), spread or source.choice([4, 300, 5000, 1 << 24])
        row = []
        for _ in range(beats):
            empty = source.random() < missing / 2
            beat = []
            for _ in range(unit.lanes):
                code = min(max(middle + source.randint(-width, width), code_range[0]), code_range[1])
                beat.append(None if empty or source.random() < missing else code)
            row.append(beat)
        rows.append(row)
    return rows


def law(unit, rows):
    """Return the cycle of each result beat by the contract's timing, the input always valid and the output ready."""
    cycles, last, start, beats = [], -1, -math.inf, 0
    for row in rows:
        last += len(row)
        start = max(last + unit.latency_cycles, start + beats)
        beats = len(row)
        cycles += range(start, start + beats)
    return cycles


def check(unit, rows, *, offer=always, take=always):
    """Run rows through the hardware and compare them with the reference."""
    bench = Bench(Softmax(unit))
    trace = bench.run(rows, offer=offer, take=take)
    bench.simulate()
    assert trace.rows == Reference(unit).rows(rows)
    return trace, bench


@pytest.mark.parametrize(("lanes", "max_length"), [(1, 24), (2, 13), (3, 20), (4, 64), (8, 50)])
def test_random_rows_are_bit_exact_and_every_beat_comes_in_the_cycle_of_the_contract(lanes, max_length):
    unit = make_unit(lanes, max_length)
    rows = random_rows(unit, random.Random(lanes), 60)
    trace, _ = check(unit, rows)
    assert trace.accepted == list(range(sum(map(len, rows)))), "a beat is accepted every cycle"
    assert trace.shown == law(unit, rows)


@pytest.mark.parametrize(("lanes", "max_length"), [(1, 24), (2, 13), (4, 30)])
@pytest.mark.parametrize(("offer", "take"), [(0.5, 0.9), (1.0, 0.3), (0.8, 0.8)])
def test_random_back_pressure_on_both_sides_loses_nothing(lanes, max_length, offer, take):
    unit = make_unit(lanes, max_length)
    rows = random_rows(unit, random.Random(7 * lanes), 40)
    check(unit, rows, offer=often(1, offer), take=often(2, take))


def test_rows_of_one_beat_are_taken_and_given_every_cycle():
    unit = make_unit(max_length=16)
    rows = random_rows(unit, random.Random(3), 150, lengths=[1], missing=0)
    trace, _ = check(unit, rows)
    assert trace.accepted == list(range(150))
    assert trace.shown == list(range(unit.latency_cycles, unit.latency_cycles + 150))


@pytest.mark.parametrize("lanes", [1, 3])
def test_the_longest_row_before_many_of_one_beat_does_not_stall_the_input(lanes):
    unit = make_unit(lanes, 40 * lanes)
    source = random.Random(11)
    rows = []
    for _ in range(3):
        rows += random_rows(unit, source, 1, lengths=[unit.max_beats])
        rows += random_rows(unit, source, 90, lengths=[1])
    trace, _ = check(unit, rows)
    assert trace.accepted == list(range(len(trace.accepted)))
    assert trace.shown == law(unit, rows)


@pytest.mark.parametrize("lanes", range(1, 65))
def test_the_stages_of_any_number_of_lanes_add_up_to_the_latency_of_the_contract(lanes):
    unit = make_unit(lanes, 64)
    assert softmax_contract(unit, counters=False).latency_cycles == unit.latency_cycles == 28 + tree_stages(lanes)


@pytest.mark.parametrize("lanes", [1, 2, 4, 5, 17])
def test_the_latency_of_the_contract_is_that_of_the_hardware(lanes):
    unit = make_unit(lanes, 64)
    core = Softmax(unit)
    assert core.latency_cycles == unit.latency_cycles
    assert core.interval_cycles == unit.interval_cycles == 1
    row = [[0] * lanes]
    bench = Bench(core)
    trace = bench.run([row])
    bench.simulate()
    assert trace.shown[0] - trace.accepted[0] == unit.latency_cycles


def corner_rows(unit):
    low, high = unit.input_format.min_code, unit.input_format.max_code
    lanes, beats = unit.lanes, unit.max_beats
    lowest = [[low] * lanes for _ in range(beats)]
    return {
        "all equal": [[5] * lanes for _ in range(beats)],
        "one huge first": [[high] + [low] * (lanes - 1), *lowest[1:]],
        "one huge last": [*lowest[1:], [low] * (lanes - 1) + [high]],
        "all most negative": lowest,
        "all most positive": [[high] * lanes for _ in range(beats)],
        "rising": [[min(high, low + 700 * (beat * lanes + lane)) for lane in range(lanes)] for beat in range(beats)],
        "falling": [[max(low, high - 700 * (beat * lanes + lane)) for lane in range(lanes)] for beat in range(beats)],
        "one score": [[high]] if lanes == 1 else [[None] * (lanes - 1) + [low]],
        "no score in the first beats": [[None] * lanes] * 3 + [[low] * lanes, [high] * lanes],
        "no score between": [[low] * lanes, [None] * lanes, [high] * lanes, [None] * lanes],
        "no score at all": [[None] * lanes] * 4,
        "lanes without a score": [
            [None if (beat + lane) % 3 == 0 else min(1000 * lane, high) for lane in range(lanes)]
            for beat in range(beats)
        ],
    }


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_corner_rows_are_bit_exact(lanes):
    unit = make_unit(lanes, 6 * lanes)
    corners = corner_rows(unit)
    trace, _ = check(unit, list(corners.values()))
    found = dict(zip(corners, trace.rows, strict=True))
    assert found["no score at all"] == [[None] * lanes] * 4
    ones = [code for code in found["one score"][0] if code is not None]
    assert ones == [unit.output_format.max_code], "a weight 1 saturates"
    equal = {code for beat in found["all equal"] for code in beat}
    assert max(equal) - min(equal) <= 1, "equal scores have weights at most one step apart"


FORMATS = [
    ("s16f10,nearest_even,saturate", "u16f16,truncate,saturate", 64),
    ("s16f10,nearest_even,saturate", "u16f16,nearest_even,saturate", 64),
    ("s16f10,nearest_even,saturate", "u17f16,nearest_up,error", 64),
    ("s16f10,nearest_even,saturate", "s18f16,nearest_even,wrap", 64),
    ("s16f10,nearest_even,saturate", "s20f12,nearest_up,saturate", 16),
    ("s8f4,truncate,saturate", "u8f8,nearest_up,saturate", 8),
    ("s8f4,truncate,saturate", "u3f2,nearest_even,error", 4),
    ("s8f4,truncate,saturate", "s3f2,nearest_up,saturate", 1),
    ("u6f0,truncate,saturate", "u16f16,nearest_up,saturate", 64),
    ("u12f8,truncate,saturate", "u10f10,truncate,saturate", 1),
    ("s6f-3,truncate,saturate", "u16f16,nearest_up,saturate", 32),
    ("s24f16,truncate,saturate", "u24f24,nearest_even,saturate", 256),
    ("s24f-8,truncate,saturate", "u16f16,nearest_up,saturate", 64),
    ("s24f24,truncate,saturate", "u4f4,nearest_up,saturate", 2),
    ("s2f1,truncate,saturate", "u5f4,nearest_up,wrap", 16),
]


@pytest.mark.parametrize("keep_row_sum", [True, False])
@pytest.mark.parametrize(("source", "target", "exp_segments"), FORMATS)
def test_every_format_and_rounding_is_bit_exact(source, target, exp_segments, keep_row_sum):
    unit = make_unit(2, 9, source, target, exp_segments, keep_row_sum)
    rows = random_rows(unit, random.Random(source + target), 40)
    rows += [row for name, row in corner_rows(unit).items() if len(row) <= unit.max_beats]
    trace, _ = check(unit, rows)
    assert trace.shown == law(unit, rows)


@st.composite
def units(draw):
    fraction = draw(st.integers(2, 20))
    integer = draw(st.integers(0, 2))
    signed = draw(st.booleans())
    rounding = draw(st.sampled_from(["truncate", "nearest_even", "nearest_up"]))
    overflow = draw(st.sampled_from(["saturate", "wrap", "error"])) if integer else "saturate"
    target = f"{'s' if signed else 'u'}{fraction + integer + signed}f{fraction},{rounding},{overflow}"
    width = draw(st.integers(2, 18))
    source = f"{draw(st.sampled_from('su'))}{width}f{draw(st.integers(-4, width + 2))},truncate,saturate"
    lanes = draw(st.integers(1, 5))
    segments = 1 << draw(st.integers(0, min(7, fraction)))
    return make_unit(lanes, draw(st.integers(1, 12)), source, target, segments, draw(st.booleans()))


@settings(max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=False)
@given(unit=units(), seed=st.integers(0, 1 << 30))
def test_any_unit_is_bit_exact_and_in_time(unit, seed):
    rows = random_rows(unit, random.Random(seed), 12)
    trace, _ = check(unit, rows)
    assert trace.shown == law(unit, rows)


def test_a_second_run_without_a_reset_gives_the_same_results():
    unit = make_unit(2, 12)
    rows = random_rows(unit, random.Random(5), 20)
    bench = Bench(Softmax(unit))
    runs = [bench.run(rows), bench.run(rows, offer=often(3, 0.6), take=often(4, 0.6)), bench.run(rows)]
    bench.simulate()
    expected = Reference(unit).rows(rows)
    assert all(run.rows == expected for run in runs)
    assert runs[2].shown == law(unit, rows)


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_counters_equal_the_actions_of_the_contract(lanes):
    unit = make_unit(lanes, 9 * lanes)
    rows = random_rows(unit, random.Random(6), 50)
    bench = Bench(Softmax(unit, counters=True))
    bench.run(rows, offer=often(5, 0.8), take=often(6, 0.7))
    bench.simulate()
    reference = Reference(unit)
    reference.rows(rows)
    assert reference.actions["rescale"] > 3
    assert bench.status == {"overrun": 0} | {f"count_{name}": value for name, value in reference.actions.items()}


@pytest.mark.parametrize(("lanes", "max_length"), [(1, 5), (2, 9), (1, 1)])
def test_a_row_that_is_too_long_is_closed_and_reported_and_its_rest_starts_a_row(lanes, max_length):
    unit = make_unit(lanes, max_length)
    most = unit.max_beats
    source = random.Random(9)
    long_row = [[source.randint(-9000, 9000) for _ in range(lanes)] for _ in range(3 * most + 2)]
    parts = [long_row[start : start + most] for start in range(0, len(long_row), most)]
    bench = Bench(Softmax(unit))
    trace = bench.run([long_row], take=often(1, 0.7))
    bench.simulate()
    assert trace.rows == Reference(unit).rows(parts)
    assert bench.status["overrun"] == 1


def test_a_row_of_exactly_the_longest_length_is_no_overrun():
    unit = make_unit(3, 10)
    _, bench = check(unit, random_rows(unit, random.Random(2), 5, lengths=[unit.max_beats], missing=0))
    assert bench.status["overrun"] == 0


def test_a_time_out_names_the_stalled_stream():
    unit = make_unit(1, 4)
    rows = random_rows(unit, random.Random(1), 40, lengths=[4])
    bench = Bench(Softmax(unit))
    bench.run(rows, take=lambda: False, patience=100)
    with pytest.raises(StalledError, match="did not move") as caught:
        bench.simulate()
    inside = bench.unit.buffer_beats + 6  # buffered words, and the places of the output stage
    assert str(caught.value) == f"stream 'scores' did not move for 100 cycles ({inside} beats in, 0 out)"


def test_a_reference_with_another_rounding_differs():
    unit, other = make_unit(2, 12), make_unit(2, 12, keep_row_sum=False)
    rows = random_rows(unit, random.Random(4), 10)
    bench = Bench(Softmax(unit))
    trace = bench.run(rows)
    bench.simulate()
    assert trace.rows != Reference(other).rows(rows)


ACCURACY = [
    (INPUT, OUTPUT, 64, 256),
    (INPUT, OUTPUT, 64, 1000),
    (INPUT, "u16f16,truncate,saturate", 64, 256),
    (INPUT, "u16f16,nearest_up,saturate", 4, 256),
    ("s12f6,nearest_even,saturate", "u12f12,nearest_even,saturate", 32, 100),
    ("s8f4,nearest_even,saturate", "u8f8,nearest_up,saturate", 8, 64),
    ("s24f16,nearest_even,saturate", "u24f24,nearest_up,saturate", 512, 512),
]


@pytest.mark.parametrize(("source", "target", "exp_segments", "max_length"), ACCURACY)
def test_no_weight_is_further_from_the_exact_softmax_than_the_stated_bound(source, target, exp_segments, max_length):
    unit = make_unit(1, max_length, source, target, exp_segments)
    scale, top = unit.input_format.resolution, unit.input_format.max_value
    noise = random.Random(8)
    worst = 0.0
    for length in (1, 2, 3, 7, max_length // 3, max_length):
        for deviation in (0.0, 0.02, 1.0, 2.5, 6.0):
            for peak in (0.0, math.log(length)):
                real = [noise.gauss(0, deviation) for _ in range(length)]
                real[noise.randrange(length)] += peak
                codes = unit.input_format.quantize([min(value, top) for value in real])
                row = [[int(code)] for code in codes]
                largest = max(row)[0]
                exact = [math.exp((code - largest) * scale) for (code,) in row]
                total = math.fsum(exact)
                weights = Reference(unit).row(row)
                for (weight,), term in zip(weights, exact, strict=True):
                    worst = max(worst, abs(weight * unit.output_format.resolution - term / total))
    assert unit.max_error / 12 < worst <= unit.max_error
