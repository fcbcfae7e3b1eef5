"""The registers of a complete attention design, once, as plain data: hardware, document, C and Python come from it.

All registers are words of 32 bits at multiples of 4 bytes, little-endian, behind AXI4-Lite. What is wider stands in two
words, the low one first; the low one latches the high one when it is read, so that both belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from accel.attention_array import ACTIONS, AttentionArray
from accel.errors import InputError

__all__ = [
    "DESIGN_ID",
    "LAYOUT_VERSION",
    "Access",
    "Field",
    "Register",
    "address_bits",
    "array_registers",
    "check_registers",
]

DESIGN_ID = 0x454E_4131
"""ENA1 in ASCII: what the first register reads, in every version."""

LAYOUT_VERSION = 1
"""Raised whenever a register changes its place or meaning."""

_ACTIONS_FROM = 0x100
_WORD_BYTES = 4


class Access(StrEnum):
    """What a host can do with a register."""

    READ_ONLY = "ro"
    READ_WRITE = "rw"
    WRITE_ONLY = "wo"


@dataclass(frozen=True, kw_only=True)
class Field:
    """Some bits of a register.

    Parameters
    ----------
    name : str
        In capitals.
    low_bit, width_bits : int
        Where they are.
    meaning : str
        In a few words.
    """

    name: str
    low_bit: int
    width_bits: int
    meaning: str

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def mask(self) -> int:
        """The bits in place."""
        return ((1 << self.width_bits) - 1) << self.low_bit


@dataclass(frozen=True, kw_only=True)
class Register:
    """One word.

    Parameters
    ----------
    name : str
        In capitals.
    offset_bytes : int
        Its address, a multiple of 4.
    access : Access
        What a host can do.
    meaning : str
        In a few words.
    fields : tuple of Field
        Its parts; none if it is one number.
    constant : int, optional
        What it always reads, for parameters of the build.
    width_bits : int
        Bits that exist; the others read 0.
    """

    name: str
    offset_bytes: int
    access: Access
    meaning: str
    fields: tuple[Field, ...] = ()
    constant: int | None = None
    width_bits: int = 32

    __pydantic_config__ = {"extra": "forbid"}


def check_registers(registers: Iterable[Register]) -> None:
    """Check a map: aligned places and names used once, fields apart and within their word.

    Raises
    ------
    InputError
        A rule is broken.
    """
    places: dict[int, str] = {}
    names: set[str] = set()
    for each in registers:
        if each.offset_bytes % _WORD_BYTES or each.offset_bytes in places or each.name in names:
            raise InputError(f"register {each.name!r} must have a name and an aligned place of its own")
        places[each.offset_bytes] = each.name
        names.add(each.name)
        used = 0
        for field in each.fields:
            if used & field.mask or field.low_bit + field.width_bits > each.width_bits:
                raise InputError(f"field {field.name!r} of register {each.name!r} must have its own bits of the word")
            used |= field.mask


def address_bits(registers: Iterable[Register]) -> int:
    """Return the address bits that reach every register."""
    return max(each.offset_bytes for each in registers).bit_length()


def _flags(*names: tuple[str, str]) -> tuple[Field, ...]:
    return tuple(
        Field(name=name, low_bit=index, width_bits=1, meaning=meaning) for index, (name, meaning) in enumerate(names)
    )


def _halves(low: tuple[str, str], high: tuple[str, str]) -> tuple[Field, ...]:
    return tuple(
        Field(name=name, low_bit=16 * index, width_bits=16, meaning=meaning)
        for index, (name, meaning) in enumerate((low, high))
    )


def _control(unit: AttentionArray) -> Iterator[Register]:
    """Yield what starts and shows a job."""
    ro, rw, wo = Access.READ_ONLY, Access.READ_WRITE, Access.WRITE_ONLY
    length = f"1 to {unit.max_length}"
    bits = unit.max_length.bit_length()
    yield Register(name="ID", offset_bytes=0x00, access=ro, meaning="that it is such a design", constant=DESIGN_ID)
    yield Register(
        name="VERSION", offset_bytes=0x04, access=ro, meaning="of this register map", constant=LAYOUT_VERSION
    )
    yield Register(
        name="CONTROL",
        offset_bytes=0x08,
        access=wo,
        meaning="each bit acts when 1 is written",
        fields=_flags(
            ("START", "do the job that the registers below describe"),
            ("CLEAR", "clear the sticky bits of STATUS, unless START is written too"),
        ),
        width_bits=2,
    )
    yield Register(
        name="STATUS",
        offset_bytes=0x0C,
        access=ro,
        meaning="DONE and the errors are sticky until CLEAR or START",
        fields=_flags(
            ("BUSY", "a job is being done"),
            ("DONE", "all of a job's results are delivered"),
            ("ERROR_LENGTH", "START was refused: a length or the heads are 0, or a length is above the maximum"),
            ("ERROR_BUSY", "START was ignored: a job was being done"),
        ),
        width_bits=4,
    )
    for offset, name in ((0x10, "QUERIES"), (0x14, "KEYS")):
        text = f"{name.lower()} of a head, {length}"
        yield Register(name=name, offset_bytes=offset, access=rw, meaning=text, width_bits=bits)
    yield Register(
        name="HEADS", offset_bytes=0x18, access=rw, meaning="heads, one after the other, 1 to 65535", width_bits=16
    )
    yield Register(
        name="FLAGS",
        offset_bytes=0x1C,
        access=rw,
        meaning="of the job",
        fields=_flags(("CAUSAL", "query p sees keys 0 to p only")),
        width_bits=1,
    )
    yield Register(
        name="INTERRUPT_ENABLE",
        offset_bytes=0x20,
        access=rw,
        meaning="what raises the interrupt",
        fields=_flags(("DONE", "DONE or an error in STATUS is set")),
        width_bits=1,
    )


def _constants(unit: AttentionArray) -> Iterator[Register]:
    """Yield the parameters that a host needs to pack its data."""
    for offset, name, meaning, fields, constant in (
        (
            0x40,
            "ARRAY",
            "size of the array",
            _halves(("ROWS", "R: keys in a beat of K or V"), ("COLUMNS", "C: queries in a beat of Q or AV")),
            unit.rows | unit.columns << 16,
        ),
        (
            0x44,
            "DIMS",
            "head dimensions",
            _halves(("QUERY_KEY", "E"), ("VALUE", "F")),
            unit.query_key_dim | unit.value_dim << 16,
        ),
        (
            0x48,
            "TILE",
            "tile sizes",
            _halves(("KEYS", "m0"), ("QUERIES", "p0")),
            unit.keys_per_tile | unit.queries_per_tile << 16,
        ),
        (0x4C, "QUERY_TILES", "query tiles on chip while all keys pass, p1", (), unit.query_tiles),
        (0x50, "MAX_LENGTH", "most queries, and most keys, of a head", (), unit.max_length),
        (0x54, "FORMATS", "bits of a number of each tensor", _widths(unit), _widths_value(unit)),
    ):
        yield Register(
            name=name,
            offset_bytes=offset,
            access=Access.READ_ONLY,
            meaning=meaning,
            fields=fields,
            constant=constant,
        )


def _formats(unit: AttentionArray) -> tuple[tuple[str, int], ...]:
    return (
        ("QUERY", unit.query_format.width_bits),
        ("KEY", unit.key_format.width_bits),
        ("VALUE", unit.value_format.width_bits),
        ("OUTPUT", unit.output_format.width_bits),
    )


def _widths(unit: AttentionArray) -> tuple[Field, ...]:
    return tuple(
        Field(name=name, low_bit=8 * index, width_bits=8, meaning=f"bits of a number of {name.lower()}")
        for index, (name, _) in enumerate(_formats(unit))
    )


def _widths_value(unit: AttentionArray) -> int:
    return sum(bits << 8 * index for index, (_, bits) in enumerate(_formats(unit)))


def _wide(name: str, offset_bytes: int, meaning: str) -> Iterator[Register]:
    """Yield the two words of a counter of 64 bits."""
    for index, part in enumerate(("LOW", "HIGH")):
        yield Register(
            name=f"{name}_{part}",
            offset_bytes=offset_bytes + _WORD_BYTES * index,
            access=Access.READ_ONLY,
            meaning=f"{meaning}, {'low' if index == 0 else 'high'} word",
        )


def array_registers(unit: AttentionArray, *, counters: bool = True) -> tuple[Register, ...]:
    """Return the register map of an array's design, by address.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    counters : bool
        Whether it counts actions.
    """
    found = [
        *_control(unit),
        *_wide("CYCLES", 0x28, "clock cycles from START to DONE of the job, or so far"),
        Register(
            name="WAIT_CYCLES",
            offset_bytes=0x30,
            access=Access.READ_ONLY,
            meaning="those in which the array waited for a stream",
        ),
        *_constants(unit),
    ]
    if counters:
        for index, (action, meaning) in enumerate(ACTIONS.items()):
            found += _wide(f"COUNT_{action.upper()}", _ACTIONS_FROM + 8 * index, f"of the job: {meaning}")
    check_registers(found)
    return tuple(found)
