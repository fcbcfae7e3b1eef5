"""The pass analysis against published counts and against random cascades unrolled into single operations."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accel.cascade import Cascade, load_cascade
from accel.errors import InputError
from accel.expression import Index
from accel.notation import parse
from mapping.passes import default_rank, passes

PUBLISHED = {
    "pedagogical-2pass": ("k", 2),
    "pedagogical-deferred": ("k", 1),
    "pedagogical-iterative": ("k", 1),
    "softmax-naive": ("m", 2),
    "softmax-3pass": ("m", 3),
    "attention-naive": ("m", 2),
    "attention-naive-deferred": ("m", 1),
    "attention-3pass": ("m", 3),
    "attention-3pass-deferred": ("m", 2),
    "attention-2pass": ("m", 2),
    "attention-1pass": ("m", 1),
}

SPLIT_KEYS = """\
cascade split-keys
  input  Q[p,e]  K[m,e]  V[m,f]
  BQK[p,m1,m0] = Q[p,e] * K[m1*M0+m0,e]
  LM[p,m1]     = BQK[p,m1,m0] :: max[m0]
  SLN[p,m1,m0] = exp(BQK[p,m1,m0] - LM[p,m1])
  SLD[p,m1]    = SLN[p,m1,m0]
  SLNV[p,m1,f] = SLN[p,m1,m0] * V[m1*M0+m0,f]
  GM[p]        = LM[p,m1] :: max[m1]
  PLM[p,m1]    = exp(LM[p,m1] - GM[p])
  SD[p]        = SLD[p,m1] * PLM[p,m1]
  SNV[p,f]     = SLNV[p,m1,f] * PLM[p,m1]
  AV[p,f]      = SNV[p,f] / SD[p]
"""


def over(rank: str, text: str) -> int:
    return passes(parse(text), rank).passes


@pytest.mark.parametrize("name", PUBLISHED)
def test_packaged_cascades_have_the_published_number_of_passes(name: str) -> None:
    rank, number = PUBLISHED[name]
    cascade = load_cascade(name)
    assert default_rank(cascade) == rank
    assert passes(cascade, rank).passes == number


def test_two_pass_attention_with_deferred_division_makes_one_pass_but_keeps_a_summary_of_each_tile() -> None:
    analysis = passes(parse(SPLIT_KEYS), "m")
    assert analysis.passes == 1
    assert {each.tensor: (each.formula, each.per) for each in analysis.live} == {
        "LM": ("M1", ("p",)),
        "SLD": ("M1", ("p",)),
        "SLNV": ("M1", ("p", "f")),
    }


def test_three_pass_attention_names_the_chain_of_each_pass() -> None:
    analysis = passes(load_cascade("attention-3pass"), "m")
    assert [(each.opens, each.einsum, each.barrier, each.chain, each.revisits) for each in analysis.boundaries] == [
        (2, "SN", "GM", ("GM", "SN"), ("QK[p,m]",)),
        (3, "A", "SD", ("SD", "A"), ("SN[p,m]",)),
    ]
    assert analysis.boundaries[0].reasons == (
        "GM[p] reduces QK[p,m] over m: it needs every element of m in pass 1",
        "every element of SN[p,m] needs GM[p]",
        "so SN[p,m] visits QK[p,m] again in pass 2",
    )
    assert analysis.tensor_passes == {"K": 3, "V": 1}


def test_two_pass_attention_is_forced_through_the_correction_of_a_tile() -> None:
    analysis = passes(load_cascade("attention-2pass"), "m")
    (boundary,) = analysis.boundaries
    assert boundary.chain == ("LM", "GM", "PLM", "A")
    assert boundary.reasons[1] == "every element of A[p,m1,m0] needs PLM[p,m1], which needs GM[p]"


def test_a_final_coordinate_forces_a_pass_when_elements_are_visited_after_it() -> None:
    analysis = passes(parse("cascade x\ninput A[k]\nR[0] = 0\nR[k+1] = R[k] + A[k]\nZ[k] = A[k] / R[K]\n"), "k")
    assert analysis.passes == 2
    assert (
        analysis.boundaries[0].reasons[0]
        == "R[K] is the value after the last step: it needs every element of k in pass 1"
    )


def test_one_pass_attention_fuses_everything_but_the_final_division() -> None:
    groups = passes(load_cascade("attention-1pass"), "m").groups
    names = [each.name for each in load_cascade("attention-1pass").einsums if not each.is_initial]
    assert [(each.pass_number, each.waits, list(each.einsums)) for each in groups] == [
        (1, False, [name for name in names if name != "AV"]),
        (1, True, ["AV"]),
    ]


def test_footprints_grow_with_the_keys_only_where_passes_force_them() -> None:
    live = {
        name: {each.tensor: each.formula for each in passes(load_cascade(name), "m").live}
        for name in ("attention-3pass", "attention-3pass-deferred", "attention-2pass", "attention-1pass")
    }
    assert live == {
        "attention-3pass": {"QK": "M", "SN": "M"},
        "attention-3pass-deferred": {"QK": "M"},
        "attention-2pass": {"LM": "M1", "SLN": "M", "SLD": "M1"},
        "attention-1pass": {},
    }
    cascade = load_cascade("attention-1pass")
    tiles = [each for each in passes(cascade, "m").footprints if each.extent == "tile"]
    sizes = cascade.sizes({"P": 100, "M": 4096, "M0": 256, "E": 64, "F": 64})
    assert [(each.tensor, each.words(sizes), each.fibers(sizes)) for each in tiles] == [("BQK", 256, 100)]


def test_an_input_revisited_in_a_later_pass_is_a_live_fiber() -> None:
    (live,) = passes(load_cascade("pedagogical-2pass"), "k").live
    assert (live.tensor, live.formula, live.per, live.reader) == ("A", "K", (), "Z")


@pytest.mark.parametrize(
    ("einsums", "number"),
    [
        ("S[i] = A[k] where k <= i\nT[i] = A[i] * S[i]", 1),  # a prefix follows the sweep
        ("S[i] = A[k] where k >= i\nT[i] = A[i] * S[i]", 1),  # a suffix follows it from the other end
        ("S[i] = A[k] where k >= i\nR[i] = A[k] where k < i\nT[i] = A[i] * S[i] * R[i]", 2),  # not both in one sweep
        ("S[i] = A[k] where k <= i, k > i - W\nT[i] = A[i] * S[i]", 1),  # a window
        ("S[i] = A[k] where k != i\nT[i] = A[i] * S[i]", 2),  # all others
        ("S[i] = A[k] where k <= i\nY = S[K-1]\nZ[k] = A[k] * Y", 2),  # the end of a prefix is the whole
        ("Y = A[0]\nZ[k] = A[k] * Y", 1),  # one element is not
        ("Y = A[k]\nZ[k] = A[k] * Y\nX = Z[k]\nU[k] = Z[k] - X\nV = U[k]\nW[k] = U[k] / V", 4),
        ("Y = A[k]\nX = A[k] :: max[k]\nZ[k] = A[k] * Y - X", 2),  # two reductions share a pass
        ("Z[k] = A[k] + 1", 1),
        ("T[j] = A[k] :: top[k]\nZ[k] = select(A[k] >= T[J-1], A[k], 0)", 2),  # the largest are known at the end
        ("T[j] = A[k] :: top[k]\nC[0] = 0\nC[j+1] = C[j] + T[j]\nZ[k] = A[k] - C[J]", 2),  # and may be summed in order
        ("N[k] = 1 + k\nZ[k] = A[k] / N[k]", 1),  # coordinates are known beforehand
        ("S = A[k] * k\nZ[k] = A[k] - S * k", 2),
        ("S = A[k] where k < W\nZ[k] = A[k] * S", 1),  # a part of the fiber
        ("S = A[k] where k < W\nZ[k] = A[k] * S where k < W", 2),  # to itself it is all there is
        ("S = A[k] where k < K-1\nZ[k] = A[k] * S", 2),  # all but one element is taken as the fiber
        ("S = A[k] where k < W\nY = S\nX = A[k] where k >= W\nZ[k] = A[k] * X * Y", 1),
        ("L[k] = exp(A[k])\nD[i,k] = A[i] * L[k]", 2),  # each element meets all others
        ("L[k] = exp(A[k])\nD[i,k] = A[i] * L[k] where k <= i\nS[i] = D[i,k]", 1),  # or all before it
        ("L[k] = exp(A[k])\nD[i,k] = A[i] * L[k] where k <= i\nZ[i] = D[i,k]\nY[k] = D[i,k]", 1),
    ],
)
def test_prefixes_windows_and_single_elements_open_no_pass_but_whole_fibers_do(einsums: str, number: int) -> None:
    assert over("k", f"cascade x\ninput A[k]\n{einsums}\n") == number


def test_a_pairing_names_what_each_element_meets() -> None:
    (boundary,) = passes(parse("cascade x\ninput A[k]\nL[k] = exp(A[k])\nD[i,k] = A[i] * L[k]\n"), "k").boundaries
    assert boundary.reasons == (
        "each element meets L[k] of every other one: it needs every element of k in pass 1",
        "every element of D[i,k] needs L[k]",
        "so D[i,k] visits A[i] and L[k] again in pass 2",
    )


def test_a_mask_between_queries_and_keys_changes_no_pass() -> None:
    lines = str(load_cascade("softmax-3pass")).splitlines()
    masked = "\n".join(
        line.split("  #")[0] + " where m <= p" if "exp(" in line or ":: max" in line else line for line in lines
    )
    assert "where" in masked
    assert over("m", masked + "\n") == 3


def test_visiting_another_input_later_counts_one_pass_over_each_input() -> None:
    analysis = passes(parse("cascade x\ninput A[k] C[k]\nY = A[k]\nZ[k] = Y * C[k]\n"), "k")
    assert analysis.passes == 2
    assert analysis.tensor_passes == {"A": 1, "C": 1}
    assert analysis.boundaries[0].reasons[2] == "so Z[k] visits C[k] in pass 2"


def test_other_ranks_of_attention_need_one_pass() -> None:
    cascade = load_cascade("attention-3pass")
    assert {rank: passes(cascade, rank).passes for rank in "pef"} == {"p": 1, "e": 1, "f": 1}


def test_nested_partitions_are_followed_to_the_elements() -> None:
    text = """cascade x
      input A[m]
      T[m2,m1,m0] = A[m2*M1*M0 + m1*M0 + m0]
      G = T[m2,m1,m0] :: max[m2,m1,m0]
      S[m2,m1,m0] = exp(T[m2,m1,m0] - G)
    """
    assert over("m", text) == 2


# A second method: unroll into single operations, and give each the earliest (sweep, tile) that its operands allow.

TILES = 8
SIZES = {"M": 2 * TILES, "M1": TILES, "M0": 2, "J": 2, "P": 1}
Time = tuple[int, int]
NEVER: Time = (1, -1)


class Unrolled:
    """Earliest times of every element of every tensor, sweeping tiles from first to last."""

    def __init__(self, cascade: Cascade) -> None:
        self.cascade = cascade
        self.times: dict[str, dict[tuple[int, ...], Time]] = {}
        self.sweeps = 0
        for stage in cascade.stages:
            steps = range(TILES) if stage.rank else [None]
            for step in steps:
                for einsum in stage.einsums:
                    self.run(einsum, {} if step is None else {"m1": step})

    def run(self, einsum: Any, bound: Mapping[str, int]) -> None:
        free = [rank for rank in einsum.ranks if rank not in bound]
        times = self.times.setdefault(einsum.name, {})
        for point in itertools.product(*(range(SIZES[rank.upper()]) for rank in free)):
            where = dict(zip(free, point, strict=True)) | dict(bound)
            time = max((self.time(read, where) for read in einsum.reads), default=NEVER)
            if {"m1", "m0"} <= set(where):
                tile = where["m1"]
                time = (time[0] + (time[1] > tile), tile)
                self.sweeps = max(self.sweeps, time[0])
            if not all(self.holds(each, where) for each in einsum.conditions):
                continue
            output = tuple(at(index, where) for index in einsum.output.indices)
            times[output] = max(times.get(output, NEVER), time)

    def holds(self, condition: Any, where: Mapping[str, int]) -> bool:
        left, right = at(condition.left, where), at(condition.right, where)
        return {"<": left < right, ">=": left >= right}[condition.comparison]

    def time(self, read: Any, where: Mapping[str, int]) -> Time:
        if read.tensor not in self.times:
            return NEVER
        return self.times[read.tensor][tuple(at(index, where) for index in read.indices)]


def at(index: Index, where: Mapping[str, int]) -> int:
    coefficients, constant = index.affine(SIZES)
    return constant + sum(factor * where[rank] for rank, factor in coefficients.items())


@st.composite
def cascades(draw: Callable[..., Any]) -> Cascade:
    """Random cascades over m: values of elements, of tiles, of the whole fiber, and running ones."""
    elements, tiles, scalars = ["A[m1*M0+m0]"], list[str](), list[str]()
    lines = ["cascade random", "  input A[m]", "  T[m1,m0] = A[m1*M0+m0]"]
    for number in range(draw(st.integers(1, 8))):
        name = f"T{number}"
        kind = draw(
            st.sampled_from(["element", "chosen", "place", "tile", "whole", "largest", "running", "scalar", "summary"])
        )
        pick = draw(st.sampled_from(elements))
        other = draw(st.sampled_from(elements + tiles + scalars))
        if kind == "element":
            lines.append(f"  {name}[m1,m0] = {pick} * {other}")
            elements.append(f"{name}[m1,m0]")
        elif kind == "chosen":
            lines.append(f"  {name}[m1,m0] = select({pick} >= {other}, {draw(st.sampled_from(elements))}, m1)")
            elements.append(f"{name}[m1,m0]")
        elif kind == "place":
            lines.append(f"  {name}[m1,m0] = m1 * M0 + m0 + P{draw(st.sampled_from(['', ' * m0']))}")
            elements.append(f"{name}[m1,m0]")
        elif kind == "largest":
            lines.append(f"  {name}[j] = {pick} * {other} :: top[m1,m0]")
            scalars.extend([f"{name}[0]", f"{name}[J-1]"])
        elif kind == "tile":
            lines.append(f"  {name}[m1] = {pick} - {other} :: max[m0]")
            tiles.append(f"{name}[m1]")
        elif kind == "whole":
            lines.append(f"  {name} = {pick} + {other} :: min[m1,m0]")
            scalars.append(name)
        elif kind == "running" and tiles:
            lines.append(f"  {name}[0] = 0")
            extra = draw(st.sampled_from(tiles + scalars))
            lines.append(f"  {name}[m1+1] = max({name}[m1], {draw(st.sampled_from(tiles))}) + {extra}")
            tiles.extend([f"{name}[m1]", f"{name}[m1+1]"])
            scalars.append(f"{name}[M1]")
        elif kind == "scalar" and scalars:
            lines.append(f"  {name} = {draw(st.sampled_from(scalars))} * {draw(st.sampled_from(scalars))}")
            scalars.append(name)
        elif kind == "summary" and tiles:
            left, right = draw(st.sampled_from(tiles)), draw(st.sampled_from(tiles + scalars))
            if draw(st.booleans()):
                lines.append(f"  {name}[m1] = {left} / {right}")
                tiles.append(f"{name}[m1]")
            else:
                lines.append(f"  {name} = {left} / {right} :: max[m1]")
                scalars.append(name)
    return parse("\n".join(lines) + "\n")


@settings(max_examples=300)
@given(cascades())
@example(
    parse(
        "cascade split\ninput A[m]\nT[m1,m0] = A[m1*M0+m0]\nL[m1] = T[m1,m0] :: max[m0]\nG = L[m1] :: max[m1]\n"
        "C[m1] = L[m1] / G\nS[m1] = T[m1,m0] - L[m1] :: max[m0]\nZ = S[m1] * C[m1] :: max[m1]\n"
        "X[m1,m0] = T[m1,m0] * C[m1]\n"
    )
)
def test_random_cascades_have_the_passes_of_their_unrolled_operations(cascade: Cascade) -> None:
    unrolled = Unrolled(cascade)
    assert unrolled.sweeps < TILES - 1
    assert passes(cascade, "m").passes == unrolled.sweeps


def test_the_unrolled_method_tells_cascades_apart() -> None:
    assert Unrolled(load_with_digits("G = T[m1,m0] :: max[m1,m0]\nS = T[m1,m0] - G :: max[m1,m0]")).sweeps == 2
    assert Unrolled(load_with_digits("G = T[m1,m0] :: max[m1,m0]\nS = T[m1,m0] :: max[m1,m0]")).sweeps == 1


def load_with_digits(einsums: str) -> Cascade:
    return parse(f"cascade x\ninput A[m]\nT[m1,m0] = A[m1*M0+m0]\n{einsums}\n")


# The command


def test_the_command_prints_passes_reasons_footprint_and_groups(einrtl: Callable[..., Any]) -> None:
    done = einrtl("passes", "attention-3pass", "--size", "P=128,M=128", "--size", "E=32,F=32")
    assert done.code == 0
    for text in (
        "attention-3pass: 3 passes over m  (passes over each input: K 3, V 1)",
        "so SN[p,m] visits QK[p,m] again in pass 2",
        "To be kept, reloaded or computed again: QK O(M) per p; SN O(M) per p.",
        "1,048,576",
        "in pass 3:    A, AV",
    ):
        assert text in done.out


def test_the_command_says_that_one_pass_keeps_nothing_that_grows(einrtl: Callable[..., Any]) -> None:
    out = einrtl("passes", "attention-1pass").out
    assert "attention-1pass: 1 pass over m" in out
    assert "Nothing that grows with M has to be kept: O(1) in M." in out
    assert "SLN[p,m1,m0] = exp(BQK[p,m1,m0] - RM[p,m1+1])" in out


def test_the_command_prints_json_and_nothing_else(einrtl: Callable[..., Any]) -> None:
    done = einrtl("passes", "attention-1pass", "--json", "--size", "P=128,M=128,M0=16,E=32,F=32")
    result = json.loads(done.out)
    assert (result["passes"], result["rank"], result["sizes"]["M1"]) == (1, "m", 8)
    sln = next(each for each in result["einsums"] if each["name"] == "SLN")
    assert sln["operations"] == {"subtract": 128 * 128, "exp": 128 * 128}
    assert sln["pass"] == 1
    assert result["fusion_groups"][-1] == {"pass": 1, "waits": True, "einsums": ["AV"]}


def test_the_command_reads_a_file_and_takes_a_rank(einrtl: Callable[..., Any], tmp_path: Any) -> None:
    path = tmp_path / "mine.ein"
    path.write_text("cascade mine\ninput A[k] B[j]\nY = A[k]\nZ[k] = A[k] * Y\nX[j] = B[j]\n")
    assert "mine: 2 passes over k" in einrtl("passes", path).out
    assert "mine: 1 pass over j" in einrtl("passes", path, "--rank", "j").out


def test_passes_without_bound_are_refused() -> None:
    text = "cascade x\ninput A[m]\nX[0,m] = A[m]\nS[t] = X[t,m]\nX[t+1,m] = X[t,m] / S[t]\nZ[m] = X[T,m]\n"
    with pytest.raises(InputError, match="each step of 't' in S, X needs another one"):
        passes(parse(text), "m")
