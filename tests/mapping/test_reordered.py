"""The two orders of attention, priced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel.numerics import FixedPoint
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit
from mapping.reordered import reordered_cost, unit_traffic_bits, unordered_cost


@given(passes=st.integers(1, 40), slots=st.integers(1, 16))
def test_the_orders_cost_what_the_paper_says_where_the_slots_divide_the_length(passes: int, slots: int) -> None:
    length = passes * slots
    job = AttentionJob(queries=length, keys=length)
    one, other = reordered_cost(slots, job), unordered_cost(slots, job)
    assert other.iterations == length**2 // slots
    assert other.loads == length**2 + length
    assert other.keys_per_iteration == slots
    assert one.iterations == length**2 // slots + slots - 1
    assert one.loads == length**2 // slots + length + slots - 1
    assert one.keys_per_iteration == 1
    assert one.utilisation <= other.utilisation == 1.0


def test_under_a_causal_mask_both_orders_stop_early_and_the_unordered_one_pays_for_partial_iterations() -> None:
    job = AttentionJob(queries=8, keys=8, causal=True)
    one, other = reordered_cost(4, job), unordered_cost(4, job)
    assert one.iterations == 4 + 8 + 3
    assert other.iterations == 4 * 1 + 4 * 2
    assert other.key_loads == 36
    assert (one.utilisation, other.utilisation) == (36 / 60, 36 / 48)


def test_traffic_of_the_unit_is_each_tensor_once_off_chip_and_one_block_a_cycle_on_chip() -> None:
    tensor = FixedPoint.parse("s8f4,nearest_even,saturate")
    unit = ReorderedUnit(
        max_length=8,
        key_features=4,
        value_features=2,
        slots=2,
        block=2,
        query_format=tensor,
        key_format=tensor,
        value_format=tensor,
        output_format=tensor,
    )
    traffic = unit_traffic_bits(unit, AttentionJob(queries=6, keys=8))
    assert traffic == {
        "queries_bits": 6 * 4 * 8,
        "keys_bits": 8 * 4 * 8,
        "values_bits": 8 * 2 * 8,
        "outputs_bits": 6 * 2 * 8,
        "key_buffer_bits_per_cycle": 16,
        "value_buffer_bits_per_cycle": 8,
    }
