"""Compiled simulations, shared by the tests of one worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel.softmax_unit import SoftmaxUnit
from rtl.axi import AxisWrapper
from rtl.emit import emit
from rtl.softmax import Softmax
from sim.cosim import Simulator
from sim.toolchain import find_toolchain


@pytest.fixture(scope="session")
def build_softmax(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[SoftmaxUnit], Simulator]:
    """Return the compiled simulation of a softmax unit, built once for each unit."""
    built: dict[SoftmaxUnit, Simulator] = {}

    def build(unit: SoftmaxUnit) -> Simulator:
        if unit not in built:
            component = AxisWrapper(Softmax(unit, counters=True))
            emitted = emit(component, "softmax", Path(tmp_path_factory.mktemp("emitted")))
            built[unit] = Simulator.build(emitted.verilog, "softmax", toolchain=find_toolchain(), cache=simulators)
        return built[unit]

    return build
