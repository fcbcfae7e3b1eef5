"""Nests: reuse and cycles against a model that steps through every tile, and what stages, stores and spills cost."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel import spec
from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.cost import load_cost_table
from accel.nest import EinsumNest, Nest, Overflow, Store, TensorStore, TileLoop
from accel.notation import parse
from accel.schedule import Axis
from mapping.nest import NestModel
from mapping.nest_price import price_nest

FLAT = load_architecture("flat-cloud")
COSTS = load_cost_table("fusemax-45nm")
PRODUCT = parse("cascade product\n  input A[p,m] V[m,f]\n  Y[p,f] = A[p,m] * V[m,f]\n")
RANKS = {"A": ("p", "m"), "V": ("m", "f"), "Y": ("p", "f")}


def slow_tiles(nest, loops, sizes):
    """List the tiles in the order of the loops: rank to (begin, end)."""
    found = []

    def walk(index, bounds):
        if index == len(loops):
            found.append(dict(bounds))
            return
        loop = nest.loops[loops[index]]
        begin, end = bounds[loop.rank]
        for at in range(begin, end, loop.size):
            walk(index + 1, {**bounds, loop.rank: (at, min(at + loop.size, end))})

    walk(0, {rank.lower(): (0, size) for rank, size in sizes.items()})
    return found


def slow_moves(tiles, ranks, stays):
    """Count the values that the tiles move one after the other."""
    total, held = 0, None
    for tile in tiles:
        part = tuple(tile[rank] for rank in ranks)
        if not stays or part != held:
            total += math.prod(end - begin for begin, end in part)
        held = part
    return total


@st.composite
def products(draw):
    """Draw a small array, and a nest of one product on it."""
    sizes = {rank: draw(st.integers(1, 9)) for rank in "PMF"}
    defined = {
        f"{rank}{level}": TileLoop(rank=rank, size=draw(st.integers(1, 6))) for rank in "pmf" for level in (2, 1)
    }
    loops = tuple(draw(st.permutations(draw(st.lists(st.sampled_from(sorted(defined)), unique=True, max_size=5)))))
    axes = dict(zip(draw(st.permutations("pmf")), draw(st.permutations(list(Axis))), strict=False))
    within = {name: draw(st.sampled_from([None, *loops])) for name in "AV"}
    nest = Nest(
        stages=(("Y",),),
        loops=defined,
        einsums={"Y": EinsumNest(array="2d", loops=loops, axes=axes)},
        tensors={
            **{name: TensorStore(store=Store.DRAM, staged=True, within=within[name]) for name in "AV"},
            "Y": TensorStore(store=Store.DRAM),
        },
    )
    shape = dataclasses.replace(FLAT.arrays["2d"], rows=draw(st.integers(1, 4)), columns=draw(st.integers(1, 4)))
    architecture = dataclasses.replace(FLAT, arrays={**FLAT.arrays, "2d": shape})
    return NestModel(cascade=PRODUCT, architecture=architecture, nest=nest, sizes=sizes)


@settings(max_examples=400)
@given(products())
def test_movement_equals_that_of_a_model_that_steps_through_every_tile(model):
    nest = model.nest.einsums["Y"]
    tiles = slow_tiles(model.nest, nest.loops, model.sizes)
    largest = {rank: max(tile[rank][1] - tile[rank][0] for tile in tiles) for rank in "pmf"}
    for ranks in RANKS.values():
        stays = all(rank in nest.axes or largest[rank] == 1 for rank in ranks)
        assert model.moved("Y", ranks) == slow_moves(tiles, ranks, stays)


@settings(max_examples=400)
@given(products())
def test_fetches_equal_those_of_a_model_that_keeps_one_part_in_the_buffer(model):
    loops = model.nest.einsums["Y"].loops
    for name in "AV":
        within = model.nest.tensors[name].within
        outside = loops[: loops.index(within) + 1] if within else ()
        tiles = slow_tiles(model.nest, outside, model.sizes)
        assert model.fetched("Y", within, RANKS[name]) == slow_moves(tiles, RANKS[name], True)


@settings(max_examples=300)
@given(products())
def test_cycles_equal_those_of_the_fullest_pe_tile_by_tile(model):
    nest, array = model.nest.einsums["Y"], model.architecture.arrays["2d"]
    width = {Axis.ROWS: array.rows, Axis.COLUMNS: array.columns}
    total = 0
    for tile in slow_tiles(model.nest, nest.loops, model.sizes):
        cycles = 1
        for rank, (begin, end) in tile.items():
            cycles *= -(-(end - begin) // (width[nest.axes[rank]] if rank in nest.axes else 1))
        total += cycles
    assert model.cycles("Y") == total
    assert model.points("Y") == math.prod(model.sizes.values())
    assert model.cycles("Y") * array.pes >= model.points("Y")


@settings(max_examples=200)
@given(products(), st.integers(1, 5))
def test_each_value_is_read_and_written_at_least_once_and_energy_is_its_price(model, instances):
    result = price_nest(model, instances=instances, costs=COSTS)
    sizes = model.sizes
    least = sizes["P"] * sizes["M"] + sizes["M"] * sizes["F"] + sizes["P"] * sizes["F"]
    assert result.traffic_bytes >= instances * 2 * least
    words = result.traffic_bytes / 8
    dram = math.fsum(each.energy_pj for each in result.energies if each.unit == "dram")
    assert dram == pytest.approx(words * 249.6, rel=1e-12)
    mac = math.fsum(each.energy_pj for each in result.energies if each.action == "mac")
    assert mac == pytest.approx(instances * math.prod(sizes.values()) * 17.1645, rel=1e-12)
    assert 0 < result.utilisation("2d") <= 1


SOFTMAX = {name: EinsumNest(array="1d", loops=("row",), axes={"m": Axis.COLUMNS}) for name in ("GM", "SN", "SD", "A")}
PRODUCTS = {
    "QK": EinsumNest(array="2d", loops=("p1", "m1"), axes={"m": Axis.ROWS, "p": Axis.COLUMNS}),
    "AV": EinsumNest(array="2d", loops=("p1", "m1"), axes={"p": Axis.ROWS, "f": Axis.COLUMNS}),
}
LOOPS = {
    "p1": TileLoop(rank="p", size=256),
    "m1": TileLoop(rank="m", size=256),
    "row": TileLoop(rank="p", size=1),
}
KEPT = TensorStore(store=Store.BUFFER, within="row")
STREAM = TensorStore(store=Store.DRAM)


def attention(*, stages, scores, overflow=Overflow.REFUSED, size_bits=FLAT.buffer.size_bits, keys=1024):
    nest = Nest(
        stages=stages,
        loops=LOOPS,
        einsums={**PRODUCTS, **SOFTMAX},
        tensors={
            **dict.fromkeys(("Q", "K", "V", "AV"), STREAM),
            "QK": scores,
            "GM": dataclasses.replace(KEPT, spills=False),
            "SD": dataclasses.replace(KEPT, spills=False),
            "SN": dataclasses.replace(KEPT, copies=0),
            "A": TensorStore(
                store=scores.store, within=scores.within if scores.store is Store.BUFFER else None, copies=0
            ),
        },
        overflow=overflow,
    )
    architecture = dataclasses.replace(FLAT, buffer=dataclasses.replace(FLAT.buffer, size_bits=size_bits))
    return NestModel(
        cascade=load_cascade("attention-3pass"),
        architecture=architecture,
        nest=nest,
        sizes={"P": 512, "M": keys, "E": 64, "F": 64},
    )


APART = (("QK",), ("GM", "SN", "SD", "A"), ("AV",))
FUSED = (tuple(itertools.chain(*APART)),)
IN_DRAM = TensorStore(store=Store.DRAM, staged=True, within="row")
ON_CHIP = TensorStore(store=Store.BUFFER, within="p1")


def test_stages_follow_each_other_and_one_stage_overlaps():
    apart = price_nest(attention(stages=APART, scores=IN_DRAM), instances=1, costs=COSTS)
    fused = price_nest(attention(stages=FUSED, scores=IN_DRAM), instances=1, costs=COSTS)
    assert len(apart.stages) == 3
    assert apart.traffic_bytes == fused.traffic_bytes
    assert apart.energy_pj == pytest.approx(fused.energy_pj, rel=1e-12)
    assert apart.latency_cycles > fused.latency_cycles
    busiest = max(fused.stages[0].memory_cycles, *fused.stages[0].busy_cycles.values())
    assert fused.latency_cycles == busiest


def test_scores_on_chip_save_their_four_trips_to_dram():
    outside = price_nest(attention(stages=FUSED, scores=IN_DRAM), instances=1, costs=COSTS)
    inside = price_nest(attention(stages=FUSED, scores=ON_CHIP), instances=1, costs=COSTS)
    assert outside.traffic_bytes - inside.traffic_bytes == 4 * 512 * 1024 * 2


def test_passes_of_the_vector_array_read_scores_again():
    model = attention(stages=FUSED, scores=ON_CHIP)
    assert dict(model.passes) == {"QK": 0, "GM": 0, "SN": 1, "SD": 1, "A": 2, "AV": 0}
    assert [name for name, _ in model.readers("QK")] == ["GM", "SN"]
    assert [name for name, _ in model.readers("SN")] == ["A"]


@pytest.mark.parametrize("size_kib", [128, 256, 400])
def test_what_does_not_fit_spills_on_each_of_its_seven_ways(size_kib):
    scores = ON_CHIP
    fits = price_nest(attention(stages=FUSED, scores=scores), instances=1, costs=COSTS)
    model = attention(stages=FUSED, scores=scores, overflow=Overflow.SPILLED, size_bits=size_kib * 8192)
    spilled = price_nest(model, instances=1, costs=COSTS)
    share = 1 - size_kib * 8192 / model.needed_bits
    assert 0 < spilled.spilled == pytest.approx(share)
    ways = 7 * 512 * 1024 * 2
    assert spilled.traffic_bytes - fits.traffic_bytes == pytest.approx(share * ways, rel=1e-12)


def test_a_nest_survives_yaml():
    nest = attention(stages=APART, scores=IN_DRAM).nest
    assert spec.loads(Nest, spec.dump(nest)) == nest
