"""Derivations of random cascades: whatever is derived computes the same, and whatever is refused names an Einsum."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.cascade import Cascade
from accel.notation import parse
from mapping.derivation.plan import make_plan
from mapping.derivation.rewrite import rewrite
from mapping.derivation.stabilise import stabilise
from mapping.derive import FORMS
from mapping.passes import passes

SIZES = {"P": 2, "M": 6, "F": 2, "M0": 2}


@dataclass
class Grower:
    """Grows a cascade of one row Einsum by Einsum; every value stays of moderate size."""

    draw: st.DrawFn
    lines: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=lambda: ["X[p,m]", "Y[m]"])
    rows: list[str] = field(default_factory=lambda: ["R[p]"])

    def pick(self, names: list[str]) -> str:
        return self.draw(st.sampled_from(names))

    def reduce(self) -> None:
        element = self.pick(self.elements)
        ending = self.pick(["", "", " :: max[m]", " :: min[m]"])
        scale = self.pick(["", " / M"]) if not ending else ""
        name = f"S{len(self.lines)}[p]"
        if "p" not in element:
            element = f"X[p,m] * {element}"
        self.lines.append(f"{name} = {element}{scale}{ending}")
        self.rows.append(name)

    def map(self) -> None:
        a, b, row = self.pick(self.elements), self.pick(self.elements), self.pick(self.rows)
        shapes = [
            f"{a} * {b}",
            f"{a} + 0.5 * {b}",
            f"{a} - {row}",
            f"{a} * {row}",
            f"{a} / (1 + {row} * {row})",
            f"relu({a})",
            f"relu({a} - {row})",
            f"abs({a}) + {row}",
            f"exp(-abs({a} - {row}))",
        ]
        name = f"E{len(self.lines)}[p,m]"
        self.lines.append(f"{name} = {self.pick(shapes)} + 0.1 * X[p,m]")
        self.elements.append(name)

    def soften(self) -> None:
        element, number = self.pick(self.elements), len(self.lines)
        self.lines += [f"N{number}[p,m] = exp({element} + 0.1 * X[p,m])", f"D{number}[p] = N{number}[p,m]"]
        self.lines.append(f"A{number}[p,m] = N{number}[p,m] / D{number}[p]")
        self.elements.append(f"A{number}[p,m]")
        self.rows.append(f"D{number}[p]")


@st.composite
def cascades(draw: st.DrawFn) -> Cascade:
    grower = Grower(draw=draw)
    grower.reduce()
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from([grower.reduce, grower.map, grower.map, grower.soften]))()
    lines = [*grower.lines, f"O[p,f] = X[p,m] * {grower.elements[-1]} * V[m,f]"]
    text = "cascade random\n  input X[p,m] Y[m] V[m,f] R[p]\n" + "".join(f"  {line}\n" for line in lines)
    return parse(text + "  output O\n")


def close(one: np.ndarray, other: np.ndarray) -> bool:
    scale = np.abs(one).max(initial=1e-6)
    return bool((np.abs(one - other) <= 1e-8 * scale).all())


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(cascades(), st.sampled_from(FORMS), st.integers(0, 10))
def test_a_derived_cascade_computes_what_its_source_does(source: Cascade, form: str, seed: int) -> None:
    stable, _ = stabilise(source, "m")
    plan = make_plan(stable, "m")
    assert not plan.stuck
    derived = rewrite(plan, form)
    rng = np.random.default_rng(seed)
    arrays = {tensor.name: rng.uniform(-1, 1, tensor.shape(SIZES)) for tensor in source.inputs}
    expected = source.evaluate(arrays, {s: n for s, n in SIZES.items() if s in source.symbols})["O"]
    found = derived.evaluate(arrays, {s: n for s, n in SIZES.items() if s in derived.symbols})["O"]
    if np.isfinite(expected).all():
        assert close(expected, found), f"{source}\n{derived}"


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(cascades())
def test_a_derivation_never_adds_a_pass_and_a_refusal_names_an_einsum(source: Cascade) -> None:
    stable, shifts = stabilise(source, "m")
    plan = make_plan(stable, "m")
    before, after = passes(source, "m").passes, passes(rewrite(plan, "running"), "m").passes
    # A shift of exponents needs the extremum first, which a later, forbidden Einsum may then wait for.
    assert after <= before + len(shifts)
    names = {each.name for each in source.einsums}
    assert {each.einsum for each in plan.blocked} <= names | {each.name for each in stable.einsums}
    if after > 1:
        assert plan.blocked
