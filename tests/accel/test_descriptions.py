"""What holds for every description: frozen, keyword-only, and closed to unknown keys."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import pytest

import accel
import sim.run_file
from accel.activation_unit import ActivationUnit
from accel.arch import Architecture
from accel.attention_array import AttentionArray, Job
from accel.attention_file import AttentionFile
from accel.block_unit import Attend, BlockUnit, Experts, Gate, Linear, Load, LoadList, Normalise, Store
from accel.cases import CaseFile
from accel.closed_activation_unit import ClosedActivationUnit
from accel.codesign import DesignSpace
from accel.configuration import Study
from accel.cost import CostTable
from accel.encoder_block import EncoderBlock
from accel.fpga import CostModel, Device
from accel.frame import VisionTransformer
from accel.frame_design import FrameDesign
from accel.layer import Layer
from accel.mantissa_unit import MantissaUnit
from accel.nest import NestSchedule
from accel.nest_result import NestResult
from accel.norm_unit import NormUnit
from accel.primitive_unit import PrimitiveUnit
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit
from accel.result import Result
from accel.schedule import Schedule, ScheduleTemplate
from accel.softmax_family import (
    BlockSkipUnit,
    IntegerSoftmaxUnit,
    Log2SoftmaxUnit,
    LogSumExpUnit,
    OnlineSoftmaxUnit,
    SoftermaxUnit,
    TopKSoftmaxUnit,
    TwoPassSoftmaxUnit,
)
from accel.softmax_rows import Quality
from accel.softmax_unit import SoftmaxUnit
from accel.sweep import SweepFile
from accel.technology import TechnologyRequest
from accel.workload import Workload


def described(cls: type) -> set[type]:
    """The dataclass and all dataclasses that its fields name, as far as their modules show."""
    found, waiting = set(), [cls]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        space = vars(importlib.import_module(one.__module__))
        text = " ".join(str(field.type) for field in dataclasses.fields(one))
        waiting += [value for name, value in space.items() if dataclasses.is_dataclass(value) and name in text]
    return found


ROOTS = (
    BlockUnit,
    EncoderBlock,
    *(Load, Store, LoadList, Linear, Normalise, Attend, Gate, Experts),
    AttentionArray,
    AttentionFile,
    Job,
    CostModel,
    Device,
    FrameDesign,
    VisionTransformer,
    AttentionJob,
    ReorderedUnit,
    ActivationUnit,
    ClosedActivationUnit,
    PrimitiveUnit,
    NormUnit,
    SweepFile,
    MantissaUnit,
    Architecture,
    CostTable,
    Layer,
    NestSchedule,
    NestResult,
    TechnologyRequest,
    CaseFile,
    DesignSpace,
    Study,
    Result,
    Schedule,
    ScheduleTemplate,
    SoftmaxUnit,
    BlockSkipUnit,
    IntegerSoftmaxUnit,
    Log2SoftmaxUnit,
    LogSumExpUnit,
    OnlineSoftmaxUnit,
    SoftermaxUnit,
    TopKSoftmaxUnit,
    TwoPassSoftmaxUnit,
    Quality,
    Workload,
    sim.run_file.RunFile,
)
DESCRIPTIONS = sorted({each for root in ROOTS for each in described(root)}, key=lambda each: each.__qualname__)


@pytest.mark.parametrize("cls", DESCRIPTIONS, ids=lambda cls: cls.__qualname__)
def test_a_description_is_frozen_and_keyword_only_and_refuses_unknown_keys(cls: type) -> None:
    parameters = cls.__dataclass_params__  # type: ignore[attr-defined]
    assert parameters.frozen
    assert all(field.kw_only for field in dataclasses.fields(cls))
    assert getattr(cls, "__pydantic_config__", {}).get("extra") == "forbid"


def test_the_search_for_descriptions_finds_nested_ones() -> None:
    names = {each.__qualname__ for each in DESCRIPTIONS}
    assert {"FixedPoint", "ComputeArray", "Operator", "Plan", "Group", "Residence", "SimulationSettings"} <= names


def test_every_module_of_accel_imports_and_names_what_it_offers() -> None:
    for module in pkgutil.walk_packages(accel.__path__, "accel."):
        loaded = importlib.import_module(module.name)
        assert all(hasattr(loaded, name) for name in getattr(loaded, "__all__", [])), module.name
