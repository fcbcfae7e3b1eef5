"""The spatial array in the registry."""

from __future__ import annotations

import dataclasses

from accel.attention_array import with_stalls
from rtl.registry import find_unit, summaries


def test_the_default_array_has_the_stalls_that_its_links_need() -> None:
    unit = find_unit("attention-array").default
    assert with_stalls(dataclasses.replace(unit, lone_stall_cycles=0)) == unit


def test_the_array_is_listed() -> None:
    (found,) = (each for each in summaries() if each["name"] == "attention-array")
    assert (found["family"], found["latency_cycles"], found["interval_cycles"]) == ("attention-array", 24, 1)
