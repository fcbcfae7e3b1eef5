"""Co-design: exponential, array shape, vector width and buffer at no more area, each design with its best schedules."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence

from accel.arch import Architecture, ComputeArray, Operator
from accel.codesign import DesignSpace
from accel.configuration import Study
from accel.cost import AreaCost, CostTable
from accel.errors import InputError
from accel.polynomial_exp import Counting, PolynomialExp
from accel.schedule import Plan
from mapping.beyond import Advance, Machine, beyond, mean, study_baseline
from mapping.codesign_accuracy import Accuracy, attention_cascades, measure
from mapping.codesign_result import Candidate, CodesignResult, Design, Evaluated
from mapping.codesign_work import Work
from mapping.reproduce import area_mm2
from mapping.search import Limits

__all__ = ["Codesign", "accuracies"]

NEAR = 1e-3
"""A design whose latencies are no more than this above their bounds is not searched again."""


class Codesign:
    """One search over designs, for one cost setting and one way to count exponentials.

    Parameters
    ----------
    study : Study
        The cost setting with the reference design and the points.
    space : DesignSpace
        What to choose from.
    counting : Counting
        Which steps of an exponential are charged.

    Raises
    ------
    InputError
        The study lacks a configuration, the reference design an array or an area, or a buffer is larger than its own.
    """

    def __init__(self, study: Study, space: DesignSpace, counting: Counting) -> None:
        self.study, self.space, self.counting = study, space, counting
        own = Machine.of(study)
        for name in (space.array, space.vector):
            if name not in own.architecture.arrays:
                raise InputError(
                    f"architecture {own.architecture.name!r} must have array {name!r} of design space {space.name!r}",
                    hint=f"it has {', '.join(own.architecture.arrays)}",
                )
        if max(space.buffer_bits) > own.architecture.buffer.size_bits:
            raise InputError(
                f"buffer_bits must be at most {own.architecture.buffer.size_bits} as in the reference design, not "
                f"{max(space.buffer_bits)}",
                hint="leave out larger ones",
            )
        architecture = _with_exponential(own.architecture, space.reference.operator(counting))
        self.reference = dataclasses.replace(own, architecture=architecture)
        self.area_mm2 = area_mm2(own.architecture, own.costs)
        self._pe_um2 = [_pe_um2(own.architecture.arrays[name], own.costs) for name in self._arrays]
        self._buffer_um2: dict[int, float] = {}
        self.baselines = study_baseline(study, self.reference)

    def machine(self, design: Design) -> Machine:
        """Return the machine of a design."""
        base = _with_exponential(self.reference.architecture, design.exponential.operator(self.counting))
        arrays = dict(base.arrays)
        array, vector = arrays[self.space.array], arrays[self.space.vector]
        arrays[self.space.array] = dataclasses.replace(array, rows=design.rows, columns=design.columns)
        arrays[self.space.vector] = dataclasses.replace(vector, columns=design.vector_columns)
        component, costs = _with_buffer(self.reference.costs, base, design.buffer_bits)
        buffer = dataclasses.replace(base.buffer, size_bits=design.buffer_bits, component=component)
        architecture = dataclasses.replace(base, name=design.name, arrays=arrays, buffer=buffer)
        return dataclasses.replace(self.reference, architecture=architecture, costs=costs)

    def candidates(self, exponentials: Sequence[PolynomialExp]) -> tuple[Candidate, ...]:
        """Return all designs with these exponentials that fit the area, in the order in which they are tried."""
        found = [each for exponential in exponentials for each in self._candidates(exponential)]
        return tuple(sorted(found, key=lambda each: (-each.estimate, -each.bound, each.area_mm2, each.design.name)))

    def _candidates(self, exponential: PolynomialExp) -> Iterator[Candidate]:
        space = self.space
        works = self._works(exponential)
        for buffer_bits in space.buffer_bits:
            for columns in range(space.least_columns, space.most_columns + 1):
                for part in space.vector_parts:
                    design = Design(
                        rows=1,
                        columns=columns,
                        vector_columns=-(-columns // part),
                        buffer_bits=buffer_bits,
                        exponential=exponential,
                    )
                    rows = self._most_rows(design)
                    if rows:
                        yield self._candidate(dataclasses.replace(design, rows=rows), works)

    def _most_rows(self, design: Design) -> int:
        """Return the rows for which the area suffices; 0 if it does not for one."""
        row_um2, vector_um2, buffer_um2 = self._areas_um2(design)
        return max(int((self.area_mm2 * 1e6 - vector_um2 - buffer_um2) // row_um2), 0)

    def _areas_um2(self, design: Design) -> tuple[float, float, float]:
        """Return the areas of a row of the main array, the vector array and the buffer."""
        array, vector = self._pe_um2
        if design.buffer_bits not in self._buffer_um2:
            component, costs = _with_buffer(self.reference.costs, self.reference.architecture, design.buffer_bits)
            self._buffer_um2[design.buffer_bits] = costs.area_um2(component)
        return design.columns * array, design.vector_columns * vector, self._buffer_um2[design.buffer_bits]

    @property
    def _arrays(self) -> tuple[str, str]:
        return self.space.array, self.space.vector

    def _candidate(self, design: Design, works: Mapping[tuple[int, ...], Work]) -> Candidate:
        base = self.reference.architecture.arrays
        array = dataclasses.replace(base[self.space.array], rows=design.rows, columns=design.columns)
        vector = dataclasses.replace(base[self.space.vector], columns=design.vector_columns)
        bounds = {shape: work.bound(array, vector) for shape, work in works.items()}
        guesses = {shape: work.estimate(array, vector) for shape, work in works.items()}
        row_um2, vector_um2, buffer_um2 = self._areas_um2(design)
        return Candidate(
            design=design,
            area_mm2=(design.rows * row_um2 + vector_um2 + buffer_um2) / 1e6,
            bound=self._mean(bounds),
            estimate=self._mean(guesses),
        )

    def _mean(self, cycles: Mapping[tuple[int, ...], float]) -> float:
        """Return the mean speed-up over the baseline with these cycles for one instance of each shape."""
        return mean(each.baseline_cycles / (each.workload.instances * cycles[each.shape]) for each in self.baselines)

    def exponentials(self, accuracies: Sequence[Accuracy]) -> tuple[PolynomialExp, ...]:
        """Return the exponentials within the error budget, without those that another beats in cycles and in energy."""
        least = next(each for each in accuracies if each.exponential == self.space.reference)
        limit = self.space.accuracy.budget * least.row_error
        allowed = {each.exponential for each in accuracies if each.exponential is not None and each.row_error <= limit}
        component = self.reference.architecture.arrays[self.space.array].component
        costs: dict[PolynomialExp, tuple[float, float]] = {}
        for each in self.space.exponentials:
            if each in allowed:
                operator = each.operator(self.counting)
                energy = sum(
                    count * self.reference.costs.energy_pj(component, action)
                    for action, count in operator.actions.items()
                )
                costs[each] = float(operator.cycles), energy
        return tuple(
            each
            for each, own in costs.items()
            if not any(
                other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in costs.values()
            )
        )

    def run(
        self,
        accuracies: Sequence[Accuracy],
        *,
        budget_s: float | None = None,
        advance: Advance | None = None,
    ) -> CodesignResult:
        """Return the best design found.

        The reference design's best schedules come first; their plans, with tile sizes searched anew, serve the designs.
        Designs are tried in the order of an estimate until none that is left can be better by its bound, or as many are
        tried as the space says. The best is searched once more in the whole map space, unless it is near its bounds.

        Parameters
        ----------
        accuracies : sequence of Accuracy
            Of all exponentials of the space.
        budget_s : float, optional
            Seconds after which no other design is tried.
        advance : callable, optional
            Called with the designs tried and what comes next.

        Raises
        ------
        InputError
            As ``mapping.search.search``, or no design fits the area.
        """
        begin, tell = time.monotonic(), advance or (lambda done, text: None)
        tell(0, "schedules for the reference design")
        first = None if budget_s is None else budget_s / 3
        points = tuple(beyond(self.reference, self.baselines, budget_s=first))
        scheduled = Evaluated(candidate=self._own(self.space.reference), points=points)
        plans = {each.baseline.shape: each.result.schedule.plan for each in scheduled.points}
        exponentials = self.exponentials(accuracies)
        tell(0, "the exponential alone")
        alone = self._try(self._own(min(exponentials, key=lambda each: each.operator(self.counting).cycles)), plans)
        candidates = self.candidates(exponentials)
        if not candidates:
            raise InputError("a design must fit the area of the reference, but none does", hint="use smaller buffers")
        until = None if budget_s is None else begin + budget_s * 2 / 3
        tried, best = self._explore(candidates, plans, until, tell)
        if best is not None and best.largest_gap > NEAR:
            tell(len(tried), f"whole map space for {best.candidate.design.name}")
            left = None if budget_s is None else max(budget_s - (time.monotonic() - begin), 1.0)
            best = self._try(best.candidate, None, budget_s=left, before=best)
        return CodesignResult(
            counting=self.counting,
            area_mm2=self.area_mm2,
            reference_speedup=mean(each.baseline_cycles / each.reference.latency_cycles for each in self.baselines),
            scheduled=scheduled,
            exponential_alone=alone,
            evaluated=tuple(sorted(tried, key=lambda each: -each.speedup)),
            best=best,
            designs=len(candidates),
            bound=max(each.bound for each in candidates),
        )

    def _explore(
        self,
        candidates: Sequence[Candidate],
        plans: Mapping[tuple[int, ...], Plan],
        until: float | None,
        tell: Advance,
    ) -> tuple[list[Evaluated], Evaluated | None]:
        """Return the designs tried, and the fastest that takes no more energy than the reference.

        Those on which a plan does not fit are passed over; at least one is tried however late it is.
        """
        rest = list(candidates)
        tried: list[Evaluated] = []
        best: Evaluated | None = None
        for number in range(self.space.evaluations):
            if not rest or (tried and until is not None and time.monotonic() > until):
                break
            candidate = rest.pop(0)
            tell(number, candidate.design.name)
            try:
                found = self._try(candidate, plans)
            except InputError:  # no tile of the plan fits buffer or registers
                continue
            tried.append(found)
            if found.energy_ratio <= 1 and (best is None or found.speedup > best.speedup):
                best = found
                rest = [each for each in rest if each.bound > best.speedup]
        return tried, best

    def _own(self, exponential: PolynomialExp) -> Candidate:
        """Return the reference design with another exponential."""
        base = self.reference.architecture
        array, vector = (base.arrays[name] for name in self._arrays)
        design = Design(
            rows=array.rows,
            columns=array.columns,
            vector_columns=vector.columns,
            buffer_bits=base.buffer.size_bits,
            exponential=exponential,
        )
        return self._candidate(design, self._works(exponential))

    def _works(self, exponential: PolynomialExp) -> dict[tuple[int, ...], Work]:
        """Return the work for one instance of each shape."""
        architecture = _with_exponential(self.reference.architecture, exponential.operator(self.counting))
        works: dict[tuple[int, ...], Work] = {}
        for each in self.baselines:
            if each.shape not in works:
                works[each.shape] = Work.of(self.reference.cascade, architecture, self._arrays, each.workload)
        return works

    def _try(
        self,
        candidate: Candidate,
        plans: Mapping[tuple[int, ...], Plan] | None,
        *,
        budget_s: float | None = None,
        before: Evaluated | None = None,
    ) -> Evaluated:
        """Return a design with its best schedules, none worse than those that were found ``before``.

        With plans their tile sizes alone are searched, and the bounds are those of the design: all schedules obey them.
        """
        design = candidate.design
        machine = self.machine(design)
        works, arrays = self._works(design.exponential), machine.architecture.arrays
        array, vector = (arrays[name] for name in self._arrays)
        points = list(beyond(machine, self.baselines, plans=plans, budget_s=budget_s, limits=Limits()))
        for number, point in enumerate(points):
            baseline = point.baseline
            bound = baseline.workload.instances * works[baseline.shape].bound(array, vector)
            bound = max(bound, 0.0 if plans else point.lower_bound_cycles)
            old = point if before is None else before.points[number]
            best = min(point, old, key=lambda each: each.result.latency_cycles)
            points[number] = dataclasses.replace(best, lower_bound_cycles=bound)
        return Evaluated(candidate=candidate, points=tuple(points))


def _with_exponential(architecture: Architecture, exponential: Operator) -> Architecture:
    """Return the architecture with another exponential on all arrays that have one."""
    arrays = {
        name: dataclasses.replace(array, operators={**array.operators, "exp": exponential})
        if "exp" in array.operators
        else array
        for name, array in architecture.arrays.items()
    }
    return dataclasses.replace(architecture, arrays=arrays)


def _pe_um2(array: ComputeArray, costs: CostTable) -> float:
    return sum(count * costs.area_um2(part) for part, count in array.parts.items())


def _with_buffer(costs: CostTable, base: Architecture, size_bits: int) -> tuple[str, CostTable]:
    """Return the component of a buffer no larger than the reference's, and the costs with it.

    An access takes the energy of the larger one, which a smaller one does not exceed, and the area is in proportion to
    the capacity. No table has smaller ones; FuseMax's gives 2.09 times the area for twice the capacity.
    """
    component = base.buffer.component
    if size_bits == base.buffer.size_bits:
        return component, costs
    name = f"{component}, {size_bits} bits of it"
    area = costs.area_um2(component, size_bits=base.buffer.size_bits) * size_bits / base.buffer.size_bits
    source = f"{component} in proportion to its capacity"
    entry = AreaCost(area_um2=area, source=source, size_bits=size_bits)
    return name, dataclasses.replace(
        costs,
        components={**costs.components, name: costs.components[component]},
        areas={**costs.areas, name: entry},
    )


def accuracies(space: DesignSpace) -> tuple[Accuracy, ...]:
    """Return the error of the correctly rounded exponential, the reference's and all others of a space."""
    cascades = attention_cascades(space.accuracy)
    choices = dict.fromkeys((None, space.reference, *space.exponentials))
    return measure(tuple(choices), cascades, space.accuracy)
