"""How many passes over a rank a cascade needs, whatever its mapping, and what follows from it.

After FuseMax (arXiv 2406.10491v3, section III): a pass is one traversal of the elements of a fiber; an element that
has to be visited again after every other element of its fiber opens another. docs/passes.md argues for the method.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from accel.cascade import Cascade
from accel.expression import Access, size_symbol
from accel.html_table import html_table
from mapping.dependence import Dependence, Family, State, Sweeps, order_conditions

__all__ = [
    "EXTENTS",
    "EinsumPass",
    "Footprint",
    "FusionGroup",
    "PassAnalysis",
    "PassBoundary",
    "default_rank",
    "fewest_sweeps",
    "passes",
]

EXTENTS: tuple[str, ...] = ("element", "tile", "fiber")
"""How much of a fiber is live, from least to most."""

# Directions are tried for at most this many passes; no known cascade comes near.
_MOST_DIRECTIONS = 6


@dataclass(frozen=True, kw_only=True)
class EinsumPass:
    """Where one Einsum runs.

    Parameters
    ----------
    name : str
        The Einsum.
    pass_number : int
        The pass in which it runs, or after which; 0 where it does not depend on any element of the fiber.
    waits : bool
        It runs after the pass, because it needs the whole fiber and visits no element itself.
    visits : bool
        It visits the elements of the fiber one by one.
    """

    name: str
    pass_number: int
    waits: bool
    visits: bool

    def __str__(self) -> str:
        """Return ``2``, ``after 2``, or ``any`` where it is free."""
        if self.pass_number == 0:
            return "any"
        return f"after {self.pass_number}" if self.waits else str(self.pass_number)


@dataclass(frozen=True, kw_only=True)
class PassBoundary:
    """Why a further pass begins.

    Parameters
    ----------
    opens : int
        The pass that begins.
    einsum : str
        The first Einsum that must run in it.
    barrier : str
        The Einsum (or, read at its final coordinate, the running tensor) that needs the whole fiber first.
    chain : tuple of str
        Einsums from the one that visits the elements in the earlier pass to ``einsum``; each depends on the one before.
    revisits : tuple of str
        What ``einsum`` reads element by element, as it reads it.
    reasons : tuple of str
        The argument as sentences.
    """

    opens: int
    einsum: str
    barrier: str
    chain: tuple[str, ...]
    revisits: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """How much of a tensor is live at once at least, in words per fiber, unless it is reloaded or computed again.

    Parameters
    ----------
    tensor : str
        The tensor.
    extent : str
        One of ``EXTENTS``. ``fiber``: all of it, so it grows with the rank; ``tile``: one tile; ``element``: one.
    symbols : tuple of str
        Sizes whose product is the number of words per fiber; empty for one word.
    per : tuple of str
        Its other ranks: there is one such fiber for each of their points.
    reader : str
        The Einsum for which it is kept.
    """

    tensor: str
    extent: str
    symbols: tuple[str, ...]
    per: tuple[str, ...]
    reader: str

    @property
    def formula(self) -> str:
        """Words per fiber in symbols, such as ``M`` or ``1``."""
        return "*".join(self.symbols) or "1"

    def words(self, sizes: Mapping[str, int]) -> int:
        """Return the words per fiber; ``sizes`` as ``Cascade.sizes`` returns them."""
        return math.prod(sizes[symbol] for symbol in self.symbols)

    def fibers(self, sizes: Mapping[str, int]) -> int:
        """Return the number of fibers; ``sizes`` as ``Cascade.sizes`` returns them."""
        return math.prod(sizes[size_symbol(rank)] for rank in self.per)


@dataclass(frozen=True, kw_only=True)
class FusionGroup:
    """Einsums that may be fused on the rank; those of different groups may not.

    Parameters
    ----------
    pass_number : int
        The pass in which they run, or after which; 0 for those that depend on no element.
    waits : bool
        They run after the pass.
    einsums : tuple of str
        Their names in the order of the cascade.
    """

    pass_number: int
    waits: bool
    einsums: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PassAnalysis:
    """The passes of a cascade over one rank.

    Parameters
    ----------
    cascade : Cascade
        The cascade.
    rank : str
        The rank.
    family : tuple of str
        Ranks that count its coordinates or a part of them, itself included.
    passes : int
        The number of passes that every mapping needs, and that one mapping reaches.
    einsums : tuple of EinsumPass
        Where each Einsum runs.
    boundaries : tuple of PassBoundary
        Why each pass but the first begins.
    tensor_passes : mapping of str to int
        For each input over the rank, the number of passes that visit its elements or values made of single ones.
    footprints : tuple of Footprint
        Live words of each tensor over the rank.
    groups : tuple of FusionGroup
        Einsums that may be fused.
    """

    cascade: Cascade = field(repr=False)
    rank: str
    family: tuple[str, ...]
    passes: int
    einsums: tuple[EinsumPass, ...]
    boundaries: tuple[PassBoundary, ...]
    tensor_passes: Mapping[str, int]
    footprints: tuple[Footprint, ...]
    groups: tuple[FusionGroup, ...]

    @property
    def live(self) -> tuple[Footprint, ...]:
        """The footprints that grow with the rank: whole fibers that must be kept, reloaded or computed again."""
        return tuple(each for each in self.footprints if each.extent == "fiber")

    def einsum(self, name: str) -> EinsumPass:
        """Return where the Einsum ``name`` runs; KeyError if there is none."""
        return {each.name: each for each in self.einsums}[name]

    def _repr_html_(self) -> str:
        rows = ((each.name, each.pass_number, self.cascade.einsum(each.name)) for each in self.einsums)
        caption = f"{self.cascade.name}: passes over {self.rank}: {self.passes}"
        return html_table(caption, ("Einsum", "pass", "definition"), rows)

    def as_dict(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return plain data for JSON; ``sizes``, as ``Cascade.sizes`` returns them, put numbers beside formulas."""
        return {
            "cascade": self.cascade.name,
            "rank": self.rank,
            "family": list(self.family),
            "passes": self.passes,
            "tensor_passes": dict(self.tensor_passes),
            "einsums": [
                {"name": each.name, "pass": each.pass_number, "waits": each.waits, "visits": each.visits}
                for each in self.einsums
            ],
            "boundaries": [
                {
                    "opens": each.opens,
                    "einsum": each.einsum,
                    "barrier": each.barrier,
                    "chain": list(each.chain),
                    "revisits": list(each.revisits),
                    "reasons": list(each.reasons),
                }
                for each in self.boundaries
            ],
            "footprints": [
                {
                    "tensor": each.tensor,
                    "extent": each.extent,
                    "words_per_fiber": each.formula,
                    "per": list(each.per),
                    "reader": each.reader,
                }
                | ({"words": each.words(sizes), "fibers": each.fibers(sizes)} if sizes else {})
                for each in self.footprints
            ],
            "fusion_groups": [
                {"pass": each.pass_number, "waits": each.waits, "einsums": list(each.einsums)} for each in self.groups
            ],
        }


def passes(cascade: Cascade, rank: str) -> PassAnalysis:
    """Return the passes of ``cascade`` over the fibers of ``rank``.

    ``rank`` is the rank of the elements: of ``K[m,e]`` read as ``K[m1*M0+m0,e]`` it is ``m``. The method follows the
    definition of a pass in FuseMax (arXiv 2406.10491v3, section III-A), which gives no algorithm.

    Raises
    ------
    InputError
        The cascade has no such rank, or the number of passes grows with an iterative rank.
    """
    family = Family(cascade=cascade, rank=rank)
    sweeps = fewest_sweeps(family)
    dependences = sweeps.dependences
    places = tuple(
        EinsumPass(name=name, pass_number=each.point.sweep, waits=each.waits, visits=each.visits)
        for name, each in dependences.items()
    )
    boundaries = (_boundary(dependences, family, number) for number in range(2, sweeps.number + 1))
    return PassAnalysis(
        cascade=cascade,
        rank=rank,
        family=tuple(name for name in cascade.ranks if name in family.members),
        passes=sweeps.number,
        einsums=places,
        boundaries=tuple(boundaries),
        tensor_passes={name: len(numbers) for name, numbers in _visits(dependences, family).items()},
        footprints=tuple(_footprints(dependences, family)),
        groups=_groups(places),
    )


def default_rank(cascade: Cascade) -> str:
    """Return the rank of the inputs with the most passes; then with the most Einsums reducing over it; then by name.

    Raises
    ------
    InputError
        The number of passes is bounded for no rank.
    """
    names = dict.fromkeys(rank for tensor in cascade.inputs for rank in tensor.ranks)
    if not names:
        names = dict.fromkeys(cascade.ranks)

    def weight(rank: str) -> tuple[int, int, str]:
        members = Family(cascade=cascade, rank=rank).members
        reducing = sum(bool(members.intersection(each.reduction.ranks)) for each in cascade.einsums if each.reduction)
        return -passes(cascade, rank).passes, -reducing, rank

    return min(names, key=weight)


def fewest_sweeps(family: Family) -> Sweeps:
    """Return the sweeps in the directions that need the fewest; directions matter only to filters within the family."""
    best = Sweeps(family=family)
    if not order_conditions(family):
        return best
    for number in range(1, min(best.number, _MOST_DIRECTIONS) + 1):
        for chosen in itertools.combinations(range(1, best.number + 1), number):
            candidate = Sweeps(family=family, descending=frozenset(chosen))
            if candidate.number < best.number:
                best = candidate
    return best


def _element_reads(dependence: Dependence, family: Family) -> tuple[Access, ...]:
    """Return the operands that are read element by element."""
    return tuple(read for read in dependence.einsum.reads if family.covers(read.ranks))


def _origins(dependences: Mapping[str, Dependence], family: Family) -> dict[str, frozenset[str]]:
    """Return for each tensor held element by element the inputs whose single elements its elements are made of."""
    origins = {
        tensor.name: frozenset({tensor.name})
        for tensor in family.cascade.inputs
        if not family.members.isdisjoint(tensor.ranks)
    }
    for name, dependence in dependences.items():
        if family.covers(dependence.einsum.output.ranks):
            sources = (origins.get(read.tensor, frozenset()) for read in _element_reads(dependence, family))
            origins[name] = frozenset().union(*sources)
    return origins


def _visits(dependences: Mapping[str, Dependence], family: Family) -> dict[str, set[int]]:
    """Return for each input over the rank the passes that visit its elements, or values made of single ones."""
    origins = _origins(dependences, family)
    visits: dict[str, set[int]] = {
        tensor.name: set() for tensor in family.cascade.inputs if not family.members.isdisjoint(tensor.ranks)
    }
    for dependence in dependences.values():
        for read in _element_reads(dependence, family):
            for name in origins.get(read.tensor, ()):
                visits[name].add(dependence.point.sweep)
    return visits


def _trail(
    dependences: Mapping[str, Dependence],
    start: Dependence,
    follow: Callable[[State], bool],
    end: Callable[[Dependence], bool],
) -> list[Dependence]:
    """Return the shortest way back from ``start``, excluded, along operands to follow, to an Einsum that is an end."""
    trails = [[start]]
    seen = {start.einsum.name}
    for trail in trails:
        if trail[-1] is not start and end(trail[-1]):
            return trail[1:]
        for read, state in trail[-1].operands.items():
            if follow(state) and read.tensor not in seen:
                seen.add(read.tensor)
                trails.append([*trail, dependences[read.tensor]])
    raise AssertionError(f"{start.einsum.name} has no operand that explains its pass")


def _boundary(dependences: Mapping[str, Dependence], family: Family, number: int) -> PassBoundary:
    """Explain why pass ``number`` begins: follow its first Einsum back to what needs the whole fiber."""

    def in_pass(state: State) -> bool:
        return state.sweep == number - 1

    def completes(state: State) -> bool:
        return state.is_complete and in_pass(state)

    opener = next(each for each in dependences.values() if each.visits and each.point.sweep == number)
    waiting = _trail(dependences, opener, completes, lambda each: not each.point.is_complete)
    barrier = waiting[-1]
    source = [] if barrier.visits else _trail(dependences, barrier, in_pass, lambda each: each.visits)
    # How each Einsum of the way reads the one behind it.
    needs = [
        next(read for read, state in reader.operands.items() if read.tensor == writer.einsum.name and completes(state))
        for reader, writer in itertools.pairwise([opener, *waiting])
    ]
    reads = _element_reads(opener, family)
    origins = _origins(dependences, family)
    earlier = {name for name, seen in _visits(dependences, family).items() if min(seen, default=number) < number}
    again = " again" if any(origins.get(read.tensor, frozenset()) & earlier for read in reads) else ""
    revisits = tuple(map(str, reads))
    output = opener.einsum.output
    return PassBoundary(
        opens=number,
        einsum=opener.einsum.name,
        barrier=barrier.einsum.name,
        chain=tuple(each.einsum.name for each in reversed([opener, *waiting, *source])),
        revisits=revisits,
        reasons=(
            f"{_completion(barrier, needs[-1], family)}: it needs every element of {family.rank} in pass {number - 1}",
            f"every element of {output} needs {', which needs '.join(map(str, needs))}",
            f"so {output} visits {' and '.join(revisits) or family.rank}{again} in pass {number}",
        ),
    )


def _completion(barrier: Dependence, read: Access, family: Family) -> str:
    """Return in words how the value that ``read`` takes comes to need the whole fiber."""
    reduction = barrier.einsum.reduction
    written = barrier.einsum.output
    pairs = family.members.intersection(read.ranks)
    if not barrier.output.is_complete and pairs:
        return f"each element meets {written} of every other one"
    if read.final_ranks or reduction is None:
        return f"{read} is the value after the last step"
    ranks = ",".join(rank for rank in reduction.ranks if rank in family.members)
    sources = ", ".join(str(each) for each in barrier.einsum.reads if family.members.intersection(each.ranks))
    return f"{barrier.einsum.output} reduces {sources} over {ranks}"


def _groups(places: Iterable[EinsumPass]) -> tuple[FusionGroup, ...]:
    found: dict[tuple[int, bool], list[str]] = {}
    for place in places:
        found.setdefault((place.pass_number, place.waits), []).append(place.name)
    return tuple(
        FusionGroup(pass_number=number, waits=waits, einsums=tuple(found[number, waits]))
        for number, waits in sorted(found)
    )


def _footprints(dependences: Mapping[str, Dependence], family: Family) -> list[Footprint]:
    """Return the live words of each tensor over the rank, for the reader that needs the most of it."""
    found = []
    for tensor in family.cascade.tensors.values():
        reads = ((each, read) for each in dependences.values() for read in each.einsum.reads)
        uses = [(reader, read) for reader, read in reads if read.tensor == tensor.name]
        if family.members.isdisjoint(tensor.ranks) or not uses:
            continue
        made = _made(tensor.name, dependences, [reader for reader, _ in uses])
        waits = [_waiting_ranks(family, reader, read, made) for reader, read in uses]
        # An input is fetched when its first reader can use it, so only what later readers add is live.
        first = frozenset.intersection(*waits) if tensor.name not in dependences else frozenset()
        options = [
            _footprint(family, reader, read, wait - first if reader.point.sweep == made else wait, made)
            for wait, (reader, read) in zip(waits, uses, strict=True)
        ]
        found.append(max(options, key=lambda each: EXTENTS.index(each.extent)))
    return found


def _made(name: str, dependences: Mapping[str, Dependence], readers: list[Dependence]) -> int:
    """Return the last pass in which the elements of a tensor can come into being without being kept."""
    if name not in dependences:
        return min((reader.point.sweep for reader in readers), default=0)
    output = dependences[name].output
    # What waits for a whole fiber can be computed as late as in the next pass, element by element.
    return output.sweep + output.is_complete


def _waiting_ranks(family: Family, reader: Dependence, read: Access, made: int) -> frozenset[str]:
    """Return the ranks of ``read`` over which elements pile up before ``reader`` can use them."""
    own = frozenset(read.ranks) & family.members
    if reader.point.sweep > made:
        return own
    others = [state for access, state in reader.operands.items() if access.tensor != read.tensor]
    boxes = [box for state in others if state.sweep == reader.point.sweep for box in state.boxes]
    # An element waits for the other operands, which span the ranks that their boxes do not name.
    return frozenset().union(*(own - box for box in boxes))


def _footprint(family: Family, reader: Dependence, read: Access, waits: frozenset[str], made: int) -> Footprint:
    own = [rank for rank in read.ranks if rank in family.members]
    keeps_all = reader.point.sweep > made or (reader.point.is_complete and waits == set(own))
    return Footprint(
        tensor=read.tensor,
        extent="fiber" if keeps_all and waits else "tile" if waits else "element",
        symbols=family.cascade.merged_symbols(rank for rank in own if rank in waits),
        per=tuple(rank for rank in read.ranks if rank not in family.members),
        reader=reader.einsum.name,
    )
