"""The contract of the block unit: a token memory and the units that work on it, driven by a list of operations.

The memory holds words of ``tile`` features. Each operation names where its rows begin, by word; a row takes
``ceil(features / tile)`` words. What each operation does:

* ``Load``: words from the stream of features into the memory. ``Store``: words from the memory to the output.
* ``LoadList``: entries of a token list, each the row of a token and its score.
* ``Linear``: a linear layer (``accel.linear_unit``) for each row. With ``gather`` the rows of the source are those that
  the list names, with ``scatter`` those of the target; else they follow each other.
* ``Normalise``: LayerNorm or RMSNorm of each row (``accel.norm_unit``).
* ``Attend``: attention, head by head (``accel.reordered_unit``); heads lie side by side in a row.
* ``Gate``: from the logits of a row the experts that it is sent to (``accel.gate_unit``): the token is appended to
  their lists. The lists that are not empty leave at the output, one beat each, in the order in which they got their
  first token: the expert, and its number of tokens. Only their weights are to be sent.
* ``Experts``: for each of these lists, the two layers of its expert (``accel.expert_unit``); nothing before any gate.

Operations run in their order. All but linear layers run alone. A linear layer starts behind the steps of the one before
it; its field ``after`` says for what it waits besides: ``all`` that is in flight to be written, or, row by row, for the
same row of the layer before (``rows``), or ``nothing``. Weights are loaded ahead, as soon as a bank is free.
"""

from __future__ import annotations

from dataclasses import dataclass

from accel.checks import check_ranges
from accel.errors import InputError
from accel.gate_unit import GATE_ACTIONS, GateUnit
from accel.linear_unit import LINEAR_ACTIONS, LinearUnit
from accel.norm_unit import NormUnit
from accel.reordered_unit import ReorderedUnit

__all__ = [
    "BLOCK_ACTIONS",
    "FIELDS",
    "FLAGS",
    "KINDS",
    "MAX_OPERATIONS",
    "Attend",
    "BlockUnit",
    "Experts",
    "Gate",
    "Linear",
    "Load",
    "LoadList",
    "Normalise",
    "Operation",
    "Store",
]

MAX_OPERATIONS = 32
"""Operations that the unit takes in ahead; a longer program would wait at its port, and its weights with it."""

STRIDE_FACTOR = 4
"""Rows may lie as far apart as this many of the longest."""

BLOCK_ACTIONS = {
    **LINEAR_ACTIONS,
    **GATE_ACTIONS,
    "feature_read": "words of features read from the token memory",
    "feature_write": "words of features written into the token memory",
    "list_write": "entries written into token lists",
    "list_read": "entries read from token lists",
}
"""The actions that hardware counts and models predict; those of the attention are ``accel.reordered_unit``'s."""

KINDS = {
    name: 1 + at
    for at, name in enumerate(("load", "store", "load_list", "linear", "normalise", "attend", "gate", "experts"))
}
"""The codes of the kinds of operations; a field of zeros is none."""

FLAGS = ("gather", "scatter", "accumulate", "weighted", "activate", "chained", "feeds", "drained")
"""The bits of the second field; ``chained``, ``feeds`` and ``drained`` follow from ``after``."""

FIELDS = (
    *("kind", "flags", "source", "target", "rows", "in_features", "out_features"),
    *("source_stride", "target_stride", "queue", "keys", "values"),
)
"""The fields of an operation, 16 bits each, the first lowest."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Words from the stream of features to ``target``."""

    target: int
    words: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Store:
    """Words from ``source`` to the output."""

    source: int
    words: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class LoadList:
    """Entries from the stream of features to list ``queue``: the row from bit 0, the score from bit 16."""

    queue: int
    entries: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A linear layer for ``rows`` rows.

    Parameters
    ----------
    source, target : int
        First words.
    rows : int
        Rows, or entries of the list.
    in_features, out_features : int
        Dimensions of the layer.
    source_stride, target_stride : int
        Words from row to row; the default 0 stands for the words of a row.
    gather, scatter : bool
        The list says which rows are read, and which are written.
    queue : int
        The list.
    accumulate : bool
        Add to the target.
    weighted : bool
        Multiply by the score of the list before; only with ``accumulate``.
    activate : bool
        Apply the activation.
    after : str
        ``all``, ``rows`` or ``nothing``.
    """

    source: int
    target: int
    rows: int
    in_features: int
    out_features: int
    source_stride: int = 0
    target_stride: int = 0
    gather: bool = False
    scatter: bool = False
    queue: int = 0
    accumulate: bool = False
    weighted: bool = False
    activate: bool = False
    after: str = "all"

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Normalise:
    """The norm of ``rows`` rows of ``features``, which lie one after the other."""

    source: int
    target: int
    rows: int
    features: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Attend:
    """Attention of ``rows`` queries to as many keys, for each of ``heads``; each row holds all heads side by side."""

    queries: int
    keys: int
    values: int
    target: int
    rows: int
    heads: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The choice of experts for ``rows`` rows of logits at ``source``; empties all lists first."""

    source: int
    rows: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Experts:
    """Both layers of each expert that the last gate chose.

    The first reads its tokens' rows at ``source``, applies the activation, and writes ``hidden_features`` one row after
    the other to ``hidden``; the second adds its results, times the scores, to the tokens' rows at ``target``.
    """

    source: int
    hidden: int
    target: int
    in_features: int
    hidden_features: int

    __pydantic_config__ = {"extra": "forbid"}


Operation = Load | Store | LoadList | Linear | Normalise | Attend | Gate | Experts


@dataclass(frozen=True, kw_only=True)
class BlockUnit:
    """Parameters of the block unit.

    Parameters
    ----------
    linear : LinearUnit
        The one engine of all linear layers; its tile is the word of the memory.
    memory_words : int
        Words of the token memory; 2 to 65536.
    max_rows : int
        Most rows of an operation, which is the longest list; 2 to 4096.
    norm : NormUnit, optional
        With the features' format in and out, and ``tile`` lanes.
    attention : ReorderedUnit, optional
        With the features' format everywhere, ``tile`` as its block, equally many key and value features, and 1 bank.
    gate : GateUnit, optional
        With the features' format for its logits, and the linear unit's fraction bits for its scores.
    lists : int
        Token lists without a gate, for ``LoadList``; with a gate there is one for each expert. 1 to 64.

    Raises
    ------
    InputError
        A parameter is out of range, or two parts do not fit each other.
    """

    linear: LinearUnit
    memory_words: int
    max_rows: int
    norm: NormUnit | None = None
    attention: ReorderedUnit | None = None
    gate: GateUnit | None = None
    lists: int = 1

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_ranges(self, (("memory_words", 2, 65536), ("max_rows", 2, 4096), ("lists", 1, 64)))
        features, tile = self.linear.feature_format, self.linear.tile
        wanted: list[tuple[str, object, dict[str, object]]] = [
            ("norm", self.norm, {"input_format": features, "output_format": features, "lanes": tile}),
            ("gate", self.gate, {"logit_format": features, "score_fraction_bits": self.linear.score_fraction_bits}),
        ]
        attention: dict[str, object] = {f"{name}_format": features for name in ("query", "key", "value", "output")}
        if self.attention is not None:
            attention |= {"block": tile, "banks": 1, "value_features": self.attention.key_features}
        wanted.append(("attention", self.attention, attention))
        for part, given, fields in wanted:
            for name, value in fields.items() if given is not None else ():
                if getattr(given, name) != value:
                    raise InputError(
                        f"{name} of the {part} must be {value}, as the linear unit's words ask, "
                        f"not {getattr(given, name)}",
                        hint="give both the same",
                        field=(part, name),
                    )

    @property
    def list_count(self) -> int:
        """Token lists."""
        return self.lists if self.gate is None else self.gate.experts

    @property
    def action_names(self) -> tuple[str, ...]:
        """Those of ``BLOCK_ACTIONS`` that can happen."""
        return tuple(name for name in BLOCK_ACTIONS if self.gate is not None or name not in GATE_ACTIONS)

    @property
    def max_stride(self) -> int:
        """Most words from row to row."""
        return STRIDE_FACTOR * self.linear.blocks(self.linear.max_features)

    @property
    def head_blocks(self) -> int:
        """Words of a row of one head."""
        return 0 if self.attention is None else self.attention.key_blocks
