"""The modulo schedules: as short as any, found by trying all of them."""

import itertools
import random

import pytest

from mapping.search.pipeline import Budget, Dependence, Held, ModuloProblem, latest_offsets, least_offsets, solve


def random_problem(seed, registers):
    """Draw three to five steps on two arrays with a recurrence, and registers for what the steps hand on."""
    draw = random.Random(seed)
    size = draw.randint(3, 5)
    arrays = tuple(draw.randint(0, 1) for _ in range(size))
    edges = {(maker, reader) for reader in range(1, size) for maker in range(reader) if draw.random() < 0.5}
    dependences = [Dependence(maker=maker, reader=reader, tiles=0) for maker, reader in sorted(edges)]
    if draw.random() < 0.7:
        maker = draw.randrange(1, size)
        dependences.append(Dependence(maker=maker, reader=draw.randrange(maker), tiles=draw.randint(1, 2)))
    held = []
    if registers:
        for maker in sorted({maker for maker, _ in edges}):
            readers = tuple(reader for one, reader in sorted(edges) if one == maker and arrays[reader] == arrays[maker])
            if readers:
                held.append(Held(maker=maker, readers=readers, array=arrays[maker], registers=2, streams=-1))
    loads = tuple(draw.randint(1, 9) for _ in range(size))
    return ModuloProblem(
        arrays=arrays,
        loads=loads,
        peaks=loads,
        dependences=tuple(dependences),
        held=tuple(held),
        room=(draw.randint(2, 8),) * 2 if registers else (99, 99),
    )


def is_legal(problem, count, stages, offsets):
    """Judge by times: a step of a tile begins after what it reads is done, and registers hold what is alive."""
    for each in problem.dependences:
        made = (offsets[each.maker] - each.tiles) * count + stages[each.maker]
        read = offsets[each.reader] * count + stages[each.reader]
        in_turn = problem.arrays[each.maker] == problem.arrays[each.reader] and each.maker < each.reader
        if read < made or (read == made and not in_turn):
            return False
    used = [0, 0]
    for each in problem.held:
        made = offsets[each.maker] * count + stages[each.maker]
        last = max(offsets[reader] * count + stages[reader] for reader in each.readers)
        used[each.array] += each.registers * ((last - made) // count + 1)
    return all(one <= room for one, room in zip(used, problem.room, strict=True))


def shortest(problem, most):
    """Try every assignment of at most ``most`` stages with every offset up to 3, and return the fewest cycles."""
    best = None
    steps = range(len(problem.arrays))
    for count in range(1, most + 1):
        for stages in itertools.product(range(count), repeat=len(problem.arrays)):
            cost = sum(
                max(sum(problem.loads[k] for k in steps if stages[k] == s and problem.arrays[k] == a) for a in (0, 1))
                for s in range(count)
            )
            if best is not None and cost >= best:
                continue
            if any(is_legal(problem, count, stages, o) for o in itertools.product(range(4), repeat=len(steps))):
                best = cost
    return best


@pytest.mark.parametrize("block", range(8))
def test_with_room_in_the_registers_no_schedule_is_shorter_than_the_first_found(block):
    for seed in range(25 * block, 25 * block + 25):
        problem = random_problem(seed, registers=False)
        found = min((each.bound for each in solve(problem, 2)), default=None)
        assert found == shortest(problem, 2), seed


def test_what_is_found_respects_tight_registers():
    found = 0
    for seed in range(200):
        problem = random_problem(seed, registers=True)
        for each in solve(problem, 3):
            assert is_legal(problem, max(each.stages) + 1, each.stages, each.offsets), seed
            found += 1
    assert found > 1000


def test_schedules_at_the_floor_come_first():
    for seed in range(50):
        problem = random_problem(seed, registers=False)
        bounds = [each.bound for each in solve(problem, 3)]
        at_floor = bounds.count(problem.floor)
        assert all(bound == problem.floor for bound in bounds[:at_floor])


def test_a_spent_budget_is_told():
    assert list(solve(random_problem(1, registers=False), 3, budget=Budget(2)))[-1] is None


def test_least_offsets_are_longest_paths_and_a_circle_has_none():
    assert least_offsets(3, [(0, 1, 1), (1, 2, 1), (0, 2, 1)]) == (0, 1, 2)
    assert least_offsets(2, [(0, 1, 1), (1, 0, 0)]) is None
    assert least_offsets(2, [(0, 1, 1), (1, 0, -1)]) == (0, 1)


def test_latest_offsets_move_makers_towards_their_readers():
    edges = [(0, 2, 3), (1, 2, 1)]
    assert least_offsets(3, edges) == (0, 0, 3)
    assert latest_offsets((0, 0, 3), edges) == (0, 2, 3)
