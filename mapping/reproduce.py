"""Pricing a study: each configuration on each model and length, attention and linear layers; ratios, means, a sweep.

Nothing here reads a published result; ``mapping.published`` sets those beside what comes out of here.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from accel.arch import Architecture, GlobalBuffer, load_architecture
from accel.cascade import load_cascade
from accel.configuration import Configuration, PipelineCase, RegisterCount, Study, Transformer
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError, did_you_mean
from accel.nest import EinsumNest, Nest, Store, TensorStore, TileLoop
from accel.nest_result import NestResult
from accel.notation import parse
from accel.result import Result
from accel.schedule import Axis, Plan, Schedule, load_template
from accel.workload import Workload
from mapping.bound import bind
from mapping.model import price
from mapping.nest import NestModel
from mapping.nest_price import price_nest
from mapping.tiling import Tiling

__all__ = ["LayerPrice", "StudyResult", "SweepResult", "area_mm2", "price_study"]

_LINEAR = parse("cascade linear\n  input X[r,k] W[k,n]\n  Y[r,n] = X[r,k] * W[k,n]\n", file="linear")
_WHOLE = 2**62  # a loop of this size is one iteration

# A study names each packaged description for many points; reading it once keeps a run short.
_architecture = cache(load_architecture)
_cascade = cache(load_cascade)
_costs = cache(load_cost_table)
_template = cache(load_template)


@dataclass(frozen=True, kw_only=True)
class LayerPrice:
    """What one configuration takes for one encoder layer of a model at one length.

    Parameters
    ----------
    configuration, model : str
        Which.
    length : int
        Queries and keys.
    latency_s, traffic_bytes, energy_pj : float
        Of attention.
    util_2d, util_1d : float
        Work of the arrays in the latency of attention.
    linear_latency_s, linear_traffic_bytes, linear_energy_pj : float
        Of the linear layers: query, key, value, output, and both of the feed-forward network.
    """

    configuration: str
    model: str
    length: int
    latency_s: float
    traffic_bytes: float
    energy_pj: float
    util_2d: float
    util_1d: float
    linear_latency_s: float
    linear_traffic_bytes: float
    linear_energy_pj: float

    @property
    def total_latency_s(self) -> float:
        """Attention and linear layers one after the other, s."""
        return self.latency_s + self.linear_latency_s

    @property
    def total_energy_pj(self) -> float:
        """Attention and linear layers, pJ."""
        return self.energy_pj + self.linear_energy_pj


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Attention on an array of another size.

    Parameters
    ----------
    model : str
        Which.
    side : int
        Rows and columns of the 2D array.
    latency_s, traffic_bytes : float
        Of attention.
    array_2d_area_um2 : float
        Area of the PEs of the 2D array.
    """

    model: str
    side: int
    latency_s: float
    traffic_bytes: float
    array_2d_area_um2: float


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """All prices of a study.

    Parameters
    ----------
    study : Study
        What was priced; its name is the cost setting.
    layers : tuple of LayerPrice
        By configuration, model and length.
    sweep : tuple of SweepResult
        By size and model.
    areas_mm2 : mapping of str to float
        Architecture to its area.
    """

    study: Study
    layers: tuple[LayerPrice, ...]
    sweep: tuple[SweepResult, ...]
    areas_mm2: Mapping[str, float]

    def ratios(self, layer: LayerPrice) -> dict[str, float]:
        """Return speed-ups over the baselines and energies relative to them, for attention and end to end."""
        found = {}
        for name in self.study.baselines:
            base = next(
                each
                for each in self.layers
                if (each.configuration, each.model, each.length) == (name, layer.model, layer.length)
            )
            short = name.lower()
            found[f"attention_speedup_over_{short}"] = base.latency_s / layer.latency_s
            found[f"attention_energy_to_{short}"] = layer.energy_pj / base.energy_pj
            found[f"end_to_end_speedup_over_{short}"] = base.total_latency_s / layer.total_latency_s
            found[f"end_to_end_energy_to_{short}"] = layer.total_energy_pj / base.total_energy_pj
        return found

    def means(self) -> dict[str, dict[str, float]]:
        """Return configuration to the arithmetic means of its ratios and utilisations over all models and lengths."""
        found: dict[str, dict[str, float]] = {}
        for configuration in self.study.configurations:
            layers = [each for each in self.layers if each.configuration == configuration.name]
            rows = [self.ratios(each) | {"util_2d": each.util_2d, "util_1d": each.util_1d} for each in layers]
            found[configuration.name] = {
                quantity: math.fsum(row[quantity] for row in rows) / len(rows) for quantity in rows[0]
            }
        return found


def _registers_pj(counts: tuple[RegisterCount, ...], per: str, sizes: Mapping[str, float], costs: CostTable) -> float:
    total = 0.0
    for count in counts:
        if count.per == per:
            reads, writes = count.accesses(sizes)
            total += reads * costs.energy_pj(count.component, "read") + writes * costs.energy_pj(
                count.component, "write"
            )
    return total


def _workload(study: Study, model: str, length: int) -> Workload:
    sizes = study.models[model]
    return Workload(
        name=model,
        batch=study.batch,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        queries=length,
        keys=length,
        query_key_dim=sizes.head_dim,
        value_dim=sizes.head_dim,
    )


def _fitted(plan: Plan, case: PipelineCase, architecture: Architecture, cascade_name: str, workload: Workload) -> int:
    """Return the largest divisor of the tiles along the fitted rank for which the buffer of the case suffices."""
    bound = bind(_cascade(cascade_name), architecture, plan)
    rank = plan.split_of[case.fitted]
    inner = plan.splits[rank][plan.splits[rank].index(case.fitted) + 1]
    count = -(-workload.sizes[rank.upper()] // case.tiles[inner])

    def too_large(size: int) -> bool:
        tiling = Tiling(bound=bound, tiles={**case.tiles, case.fitted: size}, workload=workload)
        return sum(tiling.occupancy_bits.values()) > case.fitted_to_bits

    divisors = [size for size in range(1, count + 1) if count % size == 0]
    return divisors[max(bisect_left(divisors, True, key=too_large) - 1, 0)]  # what is kept grows with the size


def price_pipeline(
    configuration: Configuration, case: PipelineCase, architecture: Architecture, workload: Workload, costs: CostTable
) -> Result:
    """Return the price of attention through a pipeline; raises ``InputError`` as ``mapping.model.price``."""
    plan = _template(case.template).plan
    fitted = _fitted(plan, case, architecture, configuration.cascade, workload)
    schedule = Schedule(
        cascade=configuration.cascade,
        architecture=architecture.name,
        tiles={**case.tiles, case.fitted: fitted},
        plan=plan,
    )
    return price(_cascade(configuration.cascade), architecture, schedule, workload, costs)


def _attention(
    study: Study, configuration: Configuration, model: str, length: int, costs: CostTable
) -> tuple[Result | NestResult, float, float]:
    """Return the price of attention and the use of both arrays."""
    architecture, workload = _architecture(configuration.architecture), _workload(study, model, length)
    if configuration.pipeline is not None:
        result = price_pipeline(configuration, configuration.pipeline, architecture, workload, costs)
        return result, result.use("2d").utilisation, result.use("1d").utilisation
    nest_model = NestModel(
        cascade=_cascade(configuration.cascade),
        architecture=architecture,
        nest=configuration.nest(model, length),
        sizes=workload.sizes,
    )
    priced = price_nest(nest_model, instances=workload.instances, costs=costs)
    return priced, priced.utilisation("2d"), priced.utilisation("1d")


def _linear_layers(model: Transformer) -> dict[str, tuple[int, int]]:
    """Return each linear layer of an encoder layer to its inputs and outputs a row."""
    inner = model.heads * model.head_dim
    projections = dict.fromkeys(("query", "key", "value"), (model.hidden, inner))
    return {
        **projections,
        "output": (inner, model.hidden),
        "up": (model.hidden, model.ffn),
        "down": (model.ffn, model.hidden),
    }


def _linear_nest(configuration: Configuration, row_block: int | None) -> Nest:
    """Return the nest of a linear layer: either all weights stay in the buffer, or blocks of rows do."""
    tile = configuration.linear.tile
    kept = "r1" if row_block is None else "r2"
    return Nest(
        stages=(("Y",),),
        loops={
            "r2": TileLoop(rank="r", size=row_block or _WHOLE),
            "r1": TileLoop(rank="r", size=tile),
            "n1": TileLoop(rank="n", size=tile),
        },
        einsums={
            "Y": EinsumNest(
                array=configuration.linear.array,
                loops=("r1", "n1") if row_block is None else ("r2", "n1", "r1"),
                axes={"r": Axis.ROWS, "n": Axis.COLUMNS},
            )
        },
        tensors={
            "X": TensorStore(store=Store.DRAM, staged=True, within=kept),
            "W": TensorStore(store=Store.DRAM, staged=True, within=None if row_block is None else "n1"),
            "Y": TensorStore(store=Store.DRAM),
        },
    )


def _linear(study: Study, configuration: Configuration, model: str, length: int, costs: CostTable) -> tuple[float, ...]:
    """Return latency (s), traffic (bytes) and energy (pJ) of the linear layers."""
    architecture = _architecture(configuration.architecture)
    pes = architecture.arrays[configuration.linear.array].pes
    rows = study.batch * length
    total = [0.0, 0.0, 0.0]
    for layer, (inputs, outputs) in _linear_layers(study.models[model]).items():
        nest = _linear_nest(configuration, configuration.linear.row_blocks.get(model, {}).get(layer))
        sizes = {"R": rows, "K": inputs, "N": outputs}
        found = price_nest(
            NestModel(cascade=_LINEAR, architecture=architecture, nest=nest, sizes=sizes), instances=1, costs=costs
        )
        side = float(configuration.linear.tile)
        operations = rows * inputs * outputs / pes
        registers = _registers_pj(
            configuration.registers, "operation", {"K": float(inputs), "M0": side, "P0": side}, costs
        )
        for index, value in enumerate((found.latency_s, found.traffic_bytes, found.energy_pj + operations * registers)):
            total[index] += value
    return tuple(total)


def _layer(study: Study, configuration: Configuration, model: str, length: int) -> LayerPrice:
    costs = _costs(configuration.technology)
    attention, util_2d, util_1d = _attention(study, configuration, model, length, costs)
    architecture, workload = _architecture(configuration.architecture), _workload(study, model, length)
    keys, queries = architecture.arrays["2d"].rows, architecture.arrays["2d"].columns
    sizes = {
        "E": float(workload.query_key_dim),
        "F": float(workload.value_dim),
        "M0": float(keys),
        "P0": float(queries),
        "M1": length / keys,
    }
    tiles = workload.instances * (length / keys) * (length / queries)
    linear = _linear(study, configuration, model, length, costs)
    return LayerPrice(
        configuration=configuration.name,
        model=model,
        length=length,
        latency_s=attention.latency_s,
        traffic_bytes=attention.traffic_bytes,
        energy_pj=attention.energy_pj + tiles * _registers_pj(configuration.registers, "tile", sizes, costs),
        util_2d=util_2d,
        util_1d=util_1d,
        linear_latency_s=linear[0],
        linear_traffic_bytes=linear[1],
        linear_energy_pj=linear[2],
    )


def area_mm2(architecture: Architecture, costs: CostTable) -> float:
    """Return the area of the PEs, the buffer and the levels inside it, mm2.

    Raises
    ------
    InputError
        The cost table lacks the area of a part, has it for another capacity, or an array does not name its parts.
    """
    memories: list[GlobalBuffer] = [architecture.buffer, *architecture.levels.values()]
    total = math.fsum(costs.area_um2(each.component, size_bits=each.size_bits) for each in memories)
    for name, array in architecture.arrays.items():
        if not array.parts:
            raise InputError(
                f"array {name!r} of architecture {architecture.name!r} must name the parts of a PE to have an area",
                hint="add parts",
            )
        total += array.pes * sum(count * costs.area_um2(part) for part, count in array.parts.items())
    return total / 1e6


def _sweep(study: Study) -> tuple[SweepResult, ...]:
    configuration = next(each for each in study.configurations if each.name == study.sweep_configuration)
    assert configuration.pipeline is not None, "the study sweeps a pipeline"
    costs = _costs(configuration.technology)
    base = _architecture(configuration.architecture)
    found = []
    for point in study.sweep:
        arrays = {
            "2d": dataclasses.replace(base.arrays["2d"], rows=point.side, columns=point.side),
            "1d": dataclasses.replace(base.arrays["1d"], columns=point.side),
        }
        row_bits = point.side * base.width_bits
        buffer = dataclasses.replace(base.buffer, size_bits=point.buffer_bits, row_bits=row_bits)
        resized = dataclasses.replace(base, arrays=arrays, buffer=buffer)
        case = dataclasses.replace(
            configuration.pipeline,
            tiles=dict.fromkeys(configuration.pipeline.tiles, point.side),
            fitted_to_bits=point.buffer_bits,
        )
        pe_um2 = costs.area_um2(point.registers)
        pe_um2 += sum(count * costs.area_um2(part) for part, count in study.sweep_area.items())
        for model in point.models:
            workload = _workload(study, model, study.sweep_length)
            result = price_pipeline(configuration, case, resized, workload, costs)
            found.append(
                SweepResult(
                    model=model,
                    side=point.side,
                    latency_s=result.latency_s,
                    traffic_bytes=result.traffic_bytes,
                    array_2d_area_um2=point.side**2 * pe_um2,
                )
            )
    return tuple(found)


def price_study(study: Study) -> StudyResult:
    """Return the price of every configuration of a study on every model and length, the sweep, and areas.

    Raises
    ------
    InputError
        A baseline or the swept configuration is none of the study, or a configuration cannot be priced.
    """
    names = [each.name for each in study.configurations]
    for name in (*study.baselines, study.sweep_configuration):
        if name not in names:
            raise InputError(
                f"{name!r} must be a configuration of study {study.name!r}", hint=did_you_mean(name, names)
            )
    layers = tuple(
        _layer(study, configuration, model, length)
        for configuration in study.configurations
        for model in study.models
        for length in study.lengths
    )
    areas = {
        each.architecture: area_mm2(_architecture(each.architecture), _costs(each.technology))
        for each in study.configurations
    }
    return StudyResult(study=study, layers=layers, sweep=_sweep(study), areas_mm2=areas)
