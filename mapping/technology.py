"""Cost tables from component models of the ``hwcomponents`` family, which runs in a Python of its own.

The family needs Python 3.12; it is asked through a process, so that EinRTL itself needs neither.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

from accel.cost import ActionCost, AreaCost, CostTable
from accel.errors import InputError, Problem
from accel.technology import ModelEntry, TechnologyRequest

__all__ = ["cost_table"]

_TIMEOUT_S = 600

# What the other Python runs: a request on standard input, an answer as the last line of standard output. The models
# print as they please.
_WORKER = """
import contextlib, importlib.metadata, json, sys
if sys.version_info < (3, 12):
    print(json.dumps({"old": sys.version.split()[0]})); sys.exit()
try:
    import hwcomponents
except ImportError as error:
    print(json.dumps({"missing": str(error)})); sys.exit()
answers = []
with contextlib.redirect_stdout(sys.stderr):
    models = {each.__name__: each for each in hwcomponents.get_models()}
    for entry in json.load(sys.stdin):
        try:
            if entry["model"] not in models:
                raise LookupError("no installed package has it")
            model = models[entry["model"]](**entry["arguments"])
            energies = {}
            for action in entry["actions"]:
                if action not in model.get_action_names():
                    raise LookupError("its actions are " + ", ".join(model.get_action_names()))
                energies[action] = str(getattr(model, action)().energy)
            package = type(model).__module__.split(".")[0]
            names = importlib.metadata.packages_distributions().get(package, [package])
            answers.append({"energies_j": energies, "area_m2": str(model.area),
                            "package": names[0], "version": importlib.metadata.version(names[0])})
        except Exception as error:
            answers.append({"error": type(error).__name__ + ": " + str(error).split("\\n")[0]})
print(json.dumps({"answers": answers}))
"""


def cost_table(request: TechnologyRequest, python: str | None = None) -> CostTable:
    """Return the cost table that a request describes, each number with its model, arguments and version as source.

    Parameters
    ----------
    request : TechnologyRequest
        What to ask.
    python : str, optional
        A Python of at least 3.12 in which ``hwcomponents`` is installed; by default the one that runs.

    Raises
    ------
    InputError
        That Python is missing or too old, lacks the package, or a model fails or gives what is no energy or area.
    """
    python = python or sys.executable
    asked = [
        {"model": each.model, "arguments": dict(each.arguments), "actions": list(each.actions.values())}
        for each in request.entries
    ]
    answers = _ask(python, asked)
    problems = []
    components: dict[str, dict[str, ActionCost]] = {}
    areas: dict[str, AreaCost] = {}
    for entry, answer in zip(request.entries, answers, strict=True):
        if "error" in answer:
            problems.append(
                Problem(
                    message=f"model {entry.model!r} must give the costs of {entry.component!r}, but fails: "
                    f"{answer['error']}",
                    hint="check its name, arguments and actions",
                )
            )
            continue
        try:
            _add(entry, answer, components, areas)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError.of(problems)
    return CostTable(name=request.name, description=request.description, components=components, areas=areas)


def _ask(python: str, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of the other Python."""
    out = "make an environment of Python 3.12 or newer, pip install hwcomponents and its models, and give --python"
    try:
        done = subprocess.run(
            [python, "-c", _WORKER],
            input=json.dumps(asked),
            capture_output=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise InputError(f"{python!r} must be a Python that runs: {error.strerror}", hint=out) from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"the models must answer within {_TIMEOUT_S} s, but do not", hint="ask for fewer, or check their arguments"
        ) from None
    lines = done.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else {}
    except json.JSONDecodeError:
        answer = {}
    if "old" in answer:
        raise InputError(f"hwcomponents must run on Python 3.12 or newer, but {python} is {answer['old']}", hint=out)
    if "missing" in answer:
        raise InputError(f"{python} must have hwcomponents, but has not: {answer['missing']}", hint=out)
    if "answers" not in answer:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{python!r} must run the models, but ends with code {done.returncode}: {last}", hint=out)
    answers: list[dict[str, Any]] = answer["answers"]
    return answers


def _add(
    entry: ModelEntry,
    answer: dict[str, Any],
    components: dict[str, dict[str, ActionCost]],
    areas: dict[str, AreaCost],
) -> None:
    """Put the answer of one model into the table."""
    arguments = ", ".join(f"{name}={value}" for name, value in entry.arguments.items())
    source = f"{answer['package']} {answer['version']} (PyPI): {entry.model}({arguments})"
    for action, asked in entry.actions.items():
        energy_pj = _number(entry, f"energy of {asked!r}", answer["energies_j"][asked]) * 1e12
        cost = ActionCost(energy_pj=energy_pj, source=f"{source}.{asked}", per_bits=entry.per_bits)
        components.setdefault(entry.component, {})[action] = cost
    if entry.area is not None:
        area_um2 = _number(entry, "area", answer["area_m2"]) * 1e12
        areas[entry.area] = AreaCost(area_um2=area_um2, source=f"{source}.area")


def _number(entry: ModelEntry, what: str, text: str) -> float:
    """Return a number that a model gave: the family takes some arguments that make no sense, and answers likewise."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(
            f"the {what} of model {entry.model!r} must be a finite number above 0, but is {text}",
            hint="check its arguments, or leave out what it does not estimate",
        )
    return value
