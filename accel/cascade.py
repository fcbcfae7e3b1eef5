"""A cascade of extended Einsums as plain data (after EDGE and FuseMax, arXiv 2406.10491v3, section II-C)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import networkx as nx

from accel import cascade_checks, rank_sizes
from accel.errors import InputError, Place, did_you_mean
from accel.expression import (
    Access,
    Condition,
    Expression,
    Index,
    Number,
    Operation,
    RankValue,
    accesses,
    expression_ranks,
    nodes,
    size_symbol,
    size_symbols,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike

    from accel.numerics import FixedPoint

__all__ = [
    "Cascade",
    "Einsum",
    "Parameter",
    "Reduction",
    "Stage",
    "Tensor",
    "cascade_names",
    "load_cascade",
    "load_cascades",
]

_PACKAGED = files("accel") / "data" / "cascade"


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor and its ranks.

    Parameters
    ----------
    name : str
        Its name.
    ranks : tuple of str
        One rank for each index; rank ``p`` has the size symbol ``P``.
    iterative_rank : str, optional
        The rank along which it is built step by step. That rank has one coordinate more than it has steps: the initial
        value stands at 0, the final one at ``P``.
    place : Place, optional
        Where it was declared or first written.
    """

    name: str
    ranks: tuple[str, ...] = ()
    iterative_rank: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the extent of each rank for the sizes given, iterative ranks with their extra coordinate."""
        return tuple(sizes[rank.upper()] + (rank == self.iterative_rank) for rank in self.ranks)

    def __str__(self) -> str:
        """Return the tensor as its declaration writes it."""
        return f"{self.name}[{','.join(self.ranks)}]" if self.ranks else self.name


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A named constant with a default, which an evaluation may replace.

    Parameters
    ----------
    name : str
        In small letters for a real number; in capitals for a whole number of at least 1 that serves like a size.
    default : float
        Its value where none is given.
    place : Place, optional
        Where it was declared.
    """

    name: str
    default: float
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def is_size(self) -> bool:
        """Whether it serves like a size, in indices and filters as well."""
        return self.name == size_symbol(self.name)

    def __str__(self) -> str:
        """Return the parameter as its declaration writes it."""
        return f"{self.name} = {Number(value=float(self.default))}"


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """How the points that meet at one output coordinate combine.

    Parameters
    ----------
    operator : str
        add, max, min, or top: the largest values in falling order along the one rank of the output that no operand has.
    ranks : tuple of str
        The ranks that are reduced, in their order of appearance in the operands.
    place : Place, optional
        Where it was written; absent where it is implied.
    """

    operator: str
    ranks: tuple[str, ...]
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the reduction as the notation writes it."""
        return f"{self.operator}[{','.join(self.ranks)}]"


@dataclass(frozen=True, kw_only=True)
class Einsum:
    """One extended Einsum: at each point of its iteration space, compute the expression and reduce into the output.

    Parameters
    ----------
    output : Access
        The left-hand side: rank variables, one of them perhaps ``r+1`` (iterative) or ``0`` (an initial value).
    expression : Expression
        The right-hand side.
    reduction : Reduction, optional
        Present exactly where ranks of the right-hand side are not on the left.
    conditions : tuple of Condition
        Points at which one of them fails are not touched; an output coordinate without any point holds the identity of
        the reduction (0 where there is none).
    comment : str
        What the author wrote behind it.
    place : Place, optional
        Where it was written.
    """

    output: Access
    expression: Expression
    reduction: Reduction | None = None
    conditions: tuple[Condition, ...] = ()
    comment: str = ""
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The tensor that it writes, which also names the Einsum."""
        return self.output.tensor

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """The tensor accesses of the right-hand side in order of first appearance, each once."""
        return accesses(self.expression)

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """The iteration ranks: those of the output, then those of the operands, then those only filters mention."""
        groups = (self.output.ranks, expression_ranks(self.expression), *(each.ranks for each in self.conditions))
        return tuple(dict.fromkeys(rank for group in groups for rank in group))

    @cached_property
    def map_operations(self) -> Mapping[str, int]:
        """Operations of the expression at one point of the iteration space, by operator; reductions are not among them.

        They stand in the order in which they are computed. Equal parts of the expression are computed once. An
        operation on constants alone is done once, ahead of time, and not counted.
        """
        operations = [node for node in nodes(self.expression) if isinstance(node, Operation) and _varies(node)]
        return dict(Counter(node.operator for node in dict.fromkeys(reversed(operations))))

    @property
    def is_initial(self) -> bool:
        """Whether it gives the initial value of an iterative tensor (``RM[p,0] = -inf``)."""
        return any(index.constant is not None for index in self.output.indices)

    @cached_property
    def iterative_rank(self) -> str | None:
        """The rank along which it builds its output step by step (``m1`` in ``RM[p,m1+1] = ...``); else None."""
        for index in self.output.indices:
            if index.shift is not None and index.shift[1] == 1:
                return index.shift[0]
        return None

    @property
    def is_copy(self) -> bool:
        """Whether it computes nothing: a renaming, a partitioning, or a constant."""
        return not self.map_operations and self.reduction is None

    @property
    def symbols(self) -> tuple[str, ...]:
        """Size symbols that it mentions by themselves, in indices, conditions or values."""
        mentioned = (*size_symbols(self.expression), *(symbol for each in self.conditions for symbol in each.symbols))
        return tuple(dict.fromkeys(mentioned))

    def __str__(self) -> str:
        """Return the Einsum as the notation writes it, without its comment."""
        text = f"{self.output} = {self.expression}"
        if self.reduction is not None and self.reduction.operator != "add":
            text += f" :: {self.reduction}"
        if self.conditions:
            text += f" where {', '.join(map(str, self.conditions))}"
        return text


def _varies(expression: Expression) -> bool:
    return any(isinstance(node, Access | RankValue) for node in nodes(expression))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Einsums that run together: one Einsum over all its points, or a loop over an iterative rank.

    Parameters
    ----------
    einsums : tuple of Einsum
        In the order of the cascade.
    rank : str, optional
        The iterative rank of the loop; None for a single Einsum without recurrence.
    """

    einsums: tuple[Einsum, ...]
    rank: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cascade:
    """A sequence of Einsums whose outputs feed later ones.

    Parameters
    ----------
    name : str
        Words of small letters and digits, joined by hyphens.
    inputs : tuple of Tensor
        Tensors given from outside.
    einsums : tuple of Einsum
        In order, initial values included.
    outputs : tuple of str
        Names of the results; empty means all tensors that no other Einsum reads.
    description : str
        The comment ahead of it: what it is and where it comes from.
    parameters : tuple of Parameter
        Named constants with their defaults.

    Raises
    ------
    InputError
        A rule of the notation is broken; the error lists every place.
    """

    name: str
    inputs: tuple[Tensor, ...]
    einsums: tuple[Einsum, ...]
    outputs: tuple[str, ...] = ()
    description: str = ""
    parameters: tuple[Parameter, ...] = ()

    def __post_init__(self) -> None:
        """Check the whole cascade and settle its outputs."""
        problems = cascade_checks.problems(self)
        if problems:
            raise InputError.of(problems)
        if not self.outputs:
            object.__setattr__(self, "outputs", self.unread)

    @property
    def unread(self) -> tuple[str, ...]:
        """Written tensors that no other Einsum reads, in order."""
        read = {access.tensor for einsum in self.einsums for access in einsum.reads if access.tensor != einsum.name}
        return tuple(dict.fromkeys(einsum.name for einsum in self.einsums if einsum.name not in read))

    @cached_property
    def index_relations(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """How indices tie the sizes of ranks together, as ``rank_sizes.index_relations`` finds it."""
        return rank_sizes.index_relations(self)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Every tensor by name: inputs, then written ones in order."""
        written = {
            einsum.name: Tensor(
                name=einsum.name,
                ranks=tuple(rank for index in einsum.output.indices for rank in index.ranks),
                iterative_rank=einsum.iterative_rank,
                place=einsum.place,
            )
            for einsum in self.einsums
            if not einsum.is_initial
        }
        return {tensor.name: tensor for tensor in self.inputs} | written

    def einsum(self, name: str) -> Einsum:
        """Return the Einsum that writes tensor ``name`` (the step, not the initial value, of an iterative one).

        Raises
        ------
        InputError
            No Einsum writes it.
        """
        known = {einsum.name: einsum for einsum in self.einsums if not einsum.is_initial}
        if name not in known:
            raise InputError(f"cascade {self.name} has no Einsum {name!r}", hint=did_you_mean(name, known))
        return known[name]

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """All ranks: those of the inputs, then others in order of appearance."""
        groups = (*(tensor.ranks for tensor in self.inputs), *(einsum.ranks for einsum in self.einsums))
        return tuple(dict.fromkeys(rank for group in groups for rank in group))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """All size symbols: one for each rank, then free parameters of filters and values."""
        mentioned = (symbol for einsum in self.einsums for symbol in einsum.symbols)
        return tuple(dict.fromkeys((*(rank.upper() for rank in self.ranks), *mentioned)))

    @cached_property
    def partitions(self) -> Mapping[tuple[str, ...], str]:
        """Digits of each partition (outermost first) and the rank they make up: ``("m1", "m0") -> "m"``."""
        found: dict[tuple[str, ...], str] = {}
        for einsum in self.einsums:
            for read in einsum.reads:
                for index, rank in zip(read.indices, self.tensors[read.tensor].ranks, strict=True):
                    if index.digits is not None:
                        found.setdefault(index.digits, rank)
        return found

    @cached_property
    def dependencies(self) -> Any:
        """A ``networkx.MultiDiGraph`` of tensors; an edge runs from each tensor read to the tensor written by it.

        Edges carry ``read`` (Access) and ``einsum`` (Einsum).
        """
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(self.tensors)
        for einsum in self.einsums:
            for read in einsum.reads:
                graph.add_edge(read.tensor, einsum.name, read=read, einsum=einsum)
        return graph

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Einsums in order of execution, those that depend on each other along an iterative rank joined to a loop."""
        writers: dict[str, list[int]] = {}
        for number, einsum in enumerate(self.einsums):
            writers.setdefault(einsum.name, []).append(number)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self.einsums)))
        for number, einsum in enumerate(self.einsums):
            for read in einsum.reads:
                first_only = any(index.constant == 0 for index in self._iterative_indices(read))
                sources = (w for w in writers.get(read.tensor, ()) if self.einsums[w].is_initial or not first_only)
                graph.add_edges_from((source, number) for source in sources)
            if einsum.iterative_rank is not None:
                graph.add_edges_from((start, number) for start in writers[einsum.name] if start != number)
        groups = nx.condensation(graph)
        members: Mapping[int, set[int]] = groups.nodes(data="members")
        stages = []
        for node in nx.lexicographical_topological_sort(groups, key=lambda node: min(members[node])):
            numbers = sorted(members[node])
            einsums = tuple(self.einsums[number] for number in numbers)
            recurs = len(numbers) > 1 or graph.has_edge(numbers[0], numbers[0])
            rank = next((einsum.iterative_rank for einsum in einsums if einsum.iterative_rank), None)
            stages.append(Stage(einsums=einsums, rank=rank if recurs else None))
        return tuple(stages)

    def _iterative_indices(self, read: Access) -> tuple[Index, ...]:
        """Return the index of ``read`` at the iterative rank of its tensor, if there is one."""
        tensor = self.tensors[read.tensor]
        pairs = zip(read.indices, tensor.ranks, strict=True)
        return tuple(index for index, rank in pairs if rank == tensor.iterative_rank)

    def sizes(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return the size of every rank and parameter, those that follow from others filled in.

        ``M1 = ceil(M / M0)`` follows from an access ``K[m1*M0+m0,e]`` to a tensor declared over ``m``. Sizes of ranks
        that this cascade lacks are left out, so that one mapping can serve several cascades.

        Raises
        ------
        InputError
            A size is missing, is not a whole number of at least 1, or contradicts another.
        """
        return rank_sizes.complete(self, given)

    def merged_symbols(self, ranks: Iterable[str]) -> tuple[str, ...]:
        """Return the size symbols whose product is the number of points of ``ranks``.

        All digits of one partition together count as the rank they make up: a partial last tile has no points past it.
        """
        return rank_sizes.merged_symbols(self, ranks)

    def points(self, einsum: Einsum, sizes: Mapping[str, int]) -> int:
        """Return the exact number of points that ``einsum`` touches; ``sizes`` as ``sizes()`` returns them."""
        return rank_sizes.points(self, einsum, sizes)

    def operation_counts(self, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Return the exact number of operations of each Einsum by operator, for sizes as ``sizes()`` takes them.

        A map operation counts once at each point, a reduction once for each point it takes in. An initial value counts
        with the Einsum that it starts.

        Raises
        ------
        InputError
            As ``sizes()``.
        """
        complete = self.sizes(sizes)
        counts: dict[str, dict[str, int]] = {each.name: {} for each in self.einsums if not each.is_initial}
        for einsum in self.einsums:
            per_point = Counter(einsum.map_operations)
            if einsum.reduction is not None:
                per_point[einsum.reduction.operator] += 1
            if per_point:
                number = self.points(einsum, complete)
                total = counts[einsum.name]
                for operator, count in per_point.items():
                    total[operator] = total.get(operator, 0) + count * number
        return counts

    def evaluate(
        self,
        inputs: Mapping[str, ArrayLike],
        sizes: Mapping[str, int] | None = None,
        dtype: DTypeLike | FixedPoint = "float64",
        *,
        keep: Iterable[str] = (),
        parameters: Mapping[str, float] | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs, and the tensors named in ``keep``, computed with numpy.

        Parameters
        ----------
        inputs : mapping of str to array
            One array for each input tensor, of the shape of its ranks; infinities are allowed, NaN is not.
        sizes : mapping of str to int, optional
            Sizes that the shapes of the inputs do not tell (tile sizes, parameters).
        dtype : float64, float32, float16, bfloat16 or FixedPoint
            Type of all arithmetic. Sums of the two 16-bit types accumulate in float32 and are rounded once. In a
            fixed-point format (or its text, such as ``s16f10,nearest_even,saturate``) inputs and the result of each
            Einsum are rounded to the format, and come out as float64.
        keep : iterable of str
            Further tensors to return.
        parameters : mapping of str to float, optional
            Values of parameters in small letters that replace their defaults.

        Raises
        ------
        InputError
            An input is missing, unknown, of the wrong shape or has NaN; a size is missing or a tile does not divide its
            rank; a parameter is unknown; ``dtype`` is another type.
        """
        from accel.evaluate import evaluate  # on demand: most users of a cascade never run it

        return evaluate(self, inputs, sizes or {}, dtype, keep=keep, parameters=parameters or {})

    def __str__(self) -> str:
        """Return the canonical text, which parses to an equal cascade."""
        lines = [f"# {line}".rstrip() for line in self.description.splitlines()]
        lines.append(f"cascade {self.name}")
        if self.inputs:
            lines.append("  input " + "  ".join(map(str, self.inputs)))
        if self.parameters:
            lines.append("  param " + "  ".join(map(str, self.parameters)))
        for einsum in self.einsums:
            lines.append(f"  {einsum}" + (f"  # {einsum.comment}" if einsum.comment else ""))
        if self.outputs != self.unread:
            lines.append("  output " + "  ".join(self.outputs))
        return "\n".join(lines) + "\n"


def cascade_names() -> tuple[str, ...]:
    """Return the names of the packaged cascades, sorted."""
    names = (entry.name for entry in _PACKAGED.iterdir())
    return tuple(sorted(name.removesuffix(".ein") for name in names if name.endswith(".ein")))


def load_cascade(name_or_path: str | Path) -> Cascade:
    """Return a packaged cascade by name, or the cascade in a file of the notation.

    What ends in ``.ein`` or contains a path separator is a path; anything else is the name of a packaged cascade. Of a
    file or packaged name with several cascades it is the last; ``FILE.ein:NAME`` and ``NAME:NAME`` pick another.

    Raises
    ------
    InputError
        No packaged cascade has the name, the file cannot be read, its text breaks the notation, or no cascade in it has
        the name after the colon.
    """
    if isinstance(name_or_path, Path):
        return load_cascades(name_or_path)[-1]
    whole, colon, name = name_or_path.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        return load_cascades(name_or_path)[-1]
    known = {cascade.name: cascade for cascade in load_cascades(whole)}
    if name not in known:
        raise InputError(f"{whole} holds no cascade {name!r}", hint=did_you_mean(name, known))
    return known[name]


def load_cascades(name_or_path: str | Path) -> tuple[Cascade, ...]:
    """Return all cascades of a packaged name or of a file, in their order.

    Raises
    ------
    InputError
        As ``load_cascade``.
    """
    from accel.notation import parse_all  # the notation builds on the types of this module
    from accel.spec import read_text

    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".ein") or "/" in text or "\\" in text:
        return parse_all(read_text(Path(name_or_path)), file=text)
    if text not in cascade_names():
        _refuse_name(text)
    return _packaged(text)


@cache
def _packaged(name: str) -> tuple[Cascade, ...]:
    """Return the cascades of a packaged file; they are frozen, so one reading serves all."""
    from accel.notation import parse_all

    return parse_all((_PACKAGED / f"{name}.ein").read_text(encoding="utf-8"), file=f"{name}.ein")


def _refuse_name(name: str) -> NoReturn:
    hint = did_you_mean(name, cascade_names(), also="a file is given by its path, FILE.ein")
    raise InputError(f"no packaged cascade is named {name!r}", hint=hint)
