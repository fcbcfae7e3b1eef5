"""Filters in nests: masks, windows, grouped heads and decoding, against a model that steps through all tiles."""

import dataclasses
import itertools
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.arch import load_architecture
from accel.cost import load_cost_table
from accel.nest import EinsumNest, Nest, Store, TensorStore, TileLoop
from accel.notation import parse
from accel.schedule import Axis
from mapping.nest import NestModel
from mapping.nest_price import price_nest
from tests.mapping.test_nest import slow_tiles

CLOUD = load_architecture("fusemax-cloud")
COSTS = load_cost_table("fusemax-45nm")
RANKS = {"A": ("p", "m"), "V": ("m", "f"), "Y": ("p", "f")}
FILTERS = {
    "": lambda p, m, sizes: True,
    "m <= p": lambda p, m, sizes: m <= p,
    "m < p": lambda p, m, sizes: m < p,
    "m <= p, m > p - W": lambda p, m, sizes: p - sizes["W"] < m <= p,
    "m > p - W": lambda p, m, sizes: m > p - sizes["W"],
    "m <= p + M - P": lambda p, m, sizes: m <= p + sizes["M"] - sizes["P"],
    "p >= m - 1, p <= m + W": lambda p, m, sizes: m - 1 <= p <= m + sizes["W"],
    "m == p": lambda p, m, sizes: m == p,
    "m <= p, m > p": lambda p, m, sizes: False,
    "m < W": lambda p, m, sizes: m < sizes["W"],
    "p >= W": lambda p, m, sizes: p >= sizes["W"],
    "G*m <= p": lambda p, m, sizes: m <= p // sizes["G"],
    "p > G*m - 1, G*m > p - G*W": lambda p, m, sizes: p // sizes["G"] - sizes["W"] < m <= p // sizes["G"],
}


def product(where):
    parameters = "".join(f"  param {name} = 2\n" for name in "GW" if name in where)
    filtered = f" where {where}" if where else ""
    return parse(f"cascade product\n  input A[p,m] V[m,f]\n{parameters}  Y[p,f] = A[p,m] * V[m,f]{filtered}\n")


@st.composite
def masked(draw):
    """Draw a small array, and a nest of one product with a filter on it; query heads may be stacked along p."""
    where = draw(st.sampled_from(list(FILTERS)))
    sizes = {"P": draw(st.integers(1, 16)), "M": draw(st.integers(1, 12)), "F": draw(st.integers(1, 4))}
    sizes |= {name: draw(st.integers(1, 5)) for name in "GW" if name in where}
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
    shape = dataclasses.replace(CLOUD.arrays["2d"], rows=draw(st.integers(1, 4)), columns=draw(st.integers(1, 4)))
    architecture = dataclasses.replace(CLOUD, arrays={**CLOUD.arrays, "2d": shape})
    return where, NestModel(cascade=product(where), architecture=architecture, nest=nest, sizes=sizes)


class Slow:
    """Everything about the tiles of Y found by looking at each point."""

    def __init__(self, where, model):
        self.model = model
        self.nest = model.nest.einsums["Y"]
        self.sizes = {rank: size for rank, size in model.sizes.items() if rank in "PMF"}
        self.valid = {
            (p, m) for p in range(self.sizes["P"]) for m in range(self.sizes["M"]) if FILTERS[where](p, m, model.sizes)
        }

    def runs(self, tile):
        return any(point in self.valid for point in itertools.product(range(*tile["p"]), range(*tile["m"])))

    def tiles(self, count=None, within=None):
        """List the tiles of the outer loops that hold a valid point; all loops by default."""
        bounds = within or {rank.lower(): (0, size) for rank, size in self.sizes.items()}
        loops = self.nest.loops[:count] if within is None else self.nest.loops[count:]
        sizes = {rank.upper(): end - begin for rank, (begin, end) in bounds.items()}
        found = []
        for tile in slow_tiles(self.model.nest, loops, sizes):
            moved = {rank: (bounds[rank][0] + begin, bounds[rank][0] + end) for rank, (begin, end) in tile.items()}
            if self.runs(moved):
                found.append(moved)
        return found

    def values(self, tiles, ranks):
        return {point for tile in tiles for point in itertools.product(*(range(*tile[rank]) for rank in ranks))}

    def moved(self, ranks):
        total, held = 0, None
        everything = slow_tiles(self.model.nest, self.nest.loops, self.sizes)
        largest = {rank: max(tile[rank][1] - tile[rank][0] for tile in everything) for rank in "pmf"}
        stays = all(rank in self.nest.axes or largest[rank] == 1 for rank in ranks)
        for tile in self.tiles():
            part = tuple(tile[rank] for rank in ranks)
            if not stays or part != held:
                total += math.prod(end - begin for begin, end in part)
            held = part
        return total

    def fetched(self, within, ranks):
        loops = self.nest.loops
        cut = loops.index(within) + 1 if within in loops else 0
        total, held = 0, None
        for outer in self.tiles(cut):
            part = self.values(self.tiles(cut, outer), ranks)
            total += 0 if part == held else len(part)
            held = part
        return total


@settings(max_examples=150)
@given(masked())
def test_movement_under_a_filter_equals_that_of_a_model_that_steps_through_every_tile(drawn):
    where, model = drawn
    slow = Slow(where, model)
    for ranks in RANKS.values():
        assert model.moved("Y", ranks) == slow.moved(ranks)


@settings(max_examples=150)
@given(masked())
def test_what_a_memory_takes_in_equals_the_values_of_the_tiles_that_run(drawn):
    where, model = drawn
    slow = Slow(where, model)
    for within in (None, *model.nest.einsums["Y"].loops):
        for ranks in RANKS.values():
            assert model.fetched("Y", within, ranks) == slow.fetched(within, ranks)
    for ranks in RANKS.values():
        assert model.fetched("Y", None, ranks) == len(slow.values(slow.tiles(), ranks))


@settings(max_examples=150)
@given(masked())
def test_cycles_and_points_under_a_filter_are_those_of_the_tiles_that_run(drawn):
    where, model = drawn
    slow, nest, array = Slow(where, model), model.nest.einsums["Y"], model.architecture.arrays["2d"]
    width = {Axis.ROWS: array.rows, Axis.COLUMNS: array.columns}
    tiles = slow.tiles()
    assert model.cycles("Y") == sum(
        math.prod(
            -(-(end - begin) // (width[nest.axes[rank]] if rank in nest.axes else 1))
            for rank, (begin, end) in tile.items()
        )
        for tile in tiles
    )
    assert model.executed("Y") == sum(math.prod(end - begin for begin, end in tile.values()) for tile in tiles)
    assert model.points("Y") == len(slow.valid) * model.sizes["F"]


def attention(where, *, queries, keys, group=1, dim=64, value_dim=64, tile=256):
    """Return a 3-pass attention with its filter on every Einsum that sees keys, scores kept on chip row by row."""
    lines = (
        "QK[p,m] = Q[p,e] * K[m,e]",
        "GM[p] = QK[p,m] :: max[m]",
        "SN[p,m] = exp(QK[p,m] - GM[p])",
        "SD[p] = SN[p,m]",
        "A[p,m] = SN[p,m] / SD[p]",
        "AV[p,f] = A[p,m] * V[m,f]",
    )
    filtered = "".join(f"  {line}{f' where {where}' if where else ''}\n" for line in lines)
    parameter = "  param G = 1\n" if "G" in where else ""
    cascade = parse(f"cascade masked\n  input Q[p,e] K[m,e] V[m,f]\n{parameter}{filtered}")
    columns = {"m": Axis.COLUMNS}
    through = TensorStore(store=Store.DRAM, staged=True, within="row")
    nest = Nest(
        stages=(("QK",), ("GM", "SN", "SD", "A"), ("AV",)),
        loops={
            "p1": TileLoop(rank="p", size=tile),
            "m1": TileLoop(rank="m", size=tile),
            "row": TileLoop(rank="p", size=1),
            "cut": TileLoop(rank="m", size=tile),
        },
        einsums={
            "QK": EinsumNest(array="2d", loops=("p1", "m1"), axes={"m": Axis.ROWS, "p": Axis.COLUMNS}),
            **{name: EinsumNest(array="1d", loops=("row", "cut"), axes=columns) for name in ("GM", "SN", "SD", "A")},
            "AV": EinsumNest(array="2d", loops=("p1", "m1"), axes={"p": Axis.ROWS, "f": Axis.COLUMNS}),
        },
        tensors={
            **dict.fromkeys(("Q", "K", "V", "AV"), TensorStore(store=Store.DRAM)),
            "QK": through,
            **dict.fromkeys(("GM", "SN", "SD"), TensorStore(store=Store.BUFFER, within="row")),
            "A": TensorStore(store=Store.DRAM),
        },
    )
    sizes = {"P": queries * group, "M": keys, "E": dim, "F": value_dim, "G": group}
    return NestModel(cascade=cascade, architecture=CLOUD, nest=nest, sizes=sizes)


def priced(where, **sizes):
    return price_nest(attention(where, **sizes), instances=1, costs=COSTS)


def test_a_causal_mask_halves_the_work_but_for_the_tiles_that_it_crosses():
    whole, causal = priced("", queries=4096, keys=4096), priced("m <= p", queries=4096, keys=4096)
    tiles = 4096 // 256
    share = tiles * (tiles + 1) / 2 / tiles**2
    for name in ("QK", "AV"):
        before, after = ({each.einsum: each for each in result.einsums}[name] for result in (whole, causal))
        assert after.cycles == share * before.cycles
        assert after.executed_points == share * before.points
        assert after.points == 4096 * 4097 // 2 * 64
    assert causal.count("dram", "write", "QK") == share * whole.count("dram", "write", "QK")
    # The array of rows goes on to the end of the tile of keys that holds the row's own key.
    assert {each.einsum: each for each in causal.einsums}["GM"].executed_points == sum(
        256 * (row // 256 + 1) for row in range(4096)
    )


def test_heads_that_share_keys_take_the_mask_of_their_query():
    grouped = attention("G*m <= p", queries=64, keys=64, group=4, tile=16)
    single = attention("m <= p", queries=64, keys=64, tile=16)
    for name in grouped.einsums:
        assert grouped.points(name) == 4 * single.points(name)
    # A tile of 16 rows holds 4 queries, so that a mask leaves more of its tiles empty than among 16 queries of a head.
    assert grouped.executed("QK") == 64 * sum(16 * 16 * (4 * tile // 16 + 1) for tile in range(16))


def test_one_query_of_decoding_sees_every_key():
    decode = attention("G*m <= p + G*M - P", queries=1, keys=1000, group=4)
    plain = attention("", queries=1, keys=1000, group=4)
    for name in plain.einsums:
        assert decode.cycles(name) == plain.cycles(name)
        assert decode.points(name) == plain.points(name)
    assert list(decode.moves()) == list(plain.moves())


@pytest.mark.parametrize(("dim", "value_dim", "group"), [(192, 128, 1), (64, 16, 8), (5, 7, 2)])
def test_unequal_head_dimensions_are_each_charged_at_their_own_size(dim, value_dim, group):
    result = priced("", queries=300, keys=700, dim=dim, value_dim=value_dim, group=group)
    points = {each.einsum: each.points for each in result.einsums}
    assert points["QK"] == 300 * group * 700 * dim
    assert points["AV"] == 300 * group * 700 * value_dim
    rows = 300 * group
    blocks = -(-rows // 256)
    words = {"Q": rows * dim, "K": blocks * 700 * dim, "V": blocks * 700 * value_dim, "AV": rows * value_dim}
    assert result.count("dram", "read", "K") * 4 == words["K"]
    assert result.count("dram", "read", "V") * 4 == words["V"]
    assert result.count("dram", "write", "AV") * 4 == words["AV"]


def test_long_sequences_with_a_mask_are_priced_in_seconds():
    begin = time.process_time()
    result = priced("m <= p, m > p - 4096", queries=2**18, keys=2**18)
    assert time.process_time() - begin < 10
    band = {each.einsum: each for each in result.einsums}["QK"]
    assert band.points == 64 * (4096 * 4097 // 2 + (2**18 - 4096) * 4096)
