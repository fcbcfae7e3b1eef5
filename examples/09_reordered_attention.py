"""Generate: a fused attention core for an FPGA; more query rows at a time make fewer loads, at the same port width."""

from pathlib import Path

from accel import FixedPoint
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit
from mapping.reordered import reordered_cost, unordered_cost
from rtl import emit
from rtl.attention.reordered import ReorderedAttention, ReorderedPorts

job = AttentionJob(queries=197, keys=197)
print("rows in work  iterations  loads of rows  keys at once | in the usual order: loads, keys at once")
for slots in (1, 2, 4, 8, 16):
    ours, usual = reordered_cost(slots, job), unordered_cost(slots, job)
    print(
        f"{slots:12} {ours.iterations:11} {ours.loads:14} {ours.keys_per_iteration:13} |"
        f" {usual.loads:25} {usual.keys_per_iteration:14}"
    )

number = FixedPoint.parse("s16f12,nearest_even,saturate")
unit = ReorderedUnit(
    max_length=64,
    key_features=16,
    value_features=16,
    slots=4,
    block=8,
    query_format=number,
    key_format=number,
    value_format=number,
    output_format=number,
)
files = emit(ReorderedPorts(ReorderedAttention(unit)), "attention", Path("build"))
print(f"{files.verilog}: 4 query rows in work, 8 numbers of a key a cycle; error at most {unit.max_error:.1e}")
