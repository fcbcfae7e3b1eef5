"""A blind trial of the cost model: designs drawn by a seed, predicted first and synthesised after.

``python benchmarks/fpga_blind.py predict --seed 1`` draws designs and writes what the committed model says of them;
it never overwrites a prediction. ``... synthesise`` fills in what synthesis finds, and ``... show`` prints both. The
file, ``benchmarks/data/fpga_blind_TARGET.csv``, names the seed, and the digests of the model and of the Verilog.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import shlex
from collections.abc import Iterator
from pathlib import Path

from accel.errors import InputError
from accel.fpga import QUANTITIES, load_model
from rtl.synth import Design, synthesise
from sim.synth.emission import emit_unit, family_of

ROOT = Path(__file__).parents[1]
COLUMNS = (
    *("seed", "command", "model_sha256", "verilog_sha256", "extrapolated"),
    *(f"predicted_{name}" for name in QUANTITIES),
    *(f"synthesised_{name}" for name in QUANTITIES),
    "tools",
)
LIMIT = 0.15


def _format(draw: random.Random, widths: tuple[int, int], sign: str, fraction: tuple[int, int], rounding: str) -> str:
    width = draw.randint(*widths)
    return f"{sign}{width}f{width - draw.randint(*fraction)},{rounding},saturate"


def _softmax(draw: random.Random) -> str:
    words = ["softmax", "--lanes", str(draw.choice((1, 2, 3, 4, 6, 8)))]
    words += ["--max-length", str(draw.randint(64, 2048))]
    words += ["--input-format", _format(draw, (8, 16), "s", (4, 6), "nearest_even")]
    words += ["--output-format", _format(draw, (8, 18), "u", (0, 0), "nearest_up")]
    return " ".join([*words, "--exp-segments", str(draw.choice((16, 32, 64, 128)))])


def _activation(draw: random.Random) -> str:
    unit = draw.choice(("gelu", "sigmoid", "silu", "tanh", "softplus", "mish", "quick-gelu"))
    error = draw.choice(("1e-2", "3e-3", "1e-3", "5e-4", "2e-4"))
    form = _format(draw, (11, 16), "s", (4, 5), "nearest_even")
    return f"{unit} --lanes {draw.randint(1, 8)} --max-error {error} --input-format {form}"


def _norm(draw: random.Random) -> str:
    unit, width = draw.choice(("layernorm", "rmsnorm")), draw.randint(8, 16)
    given = f"s{width}f{width - draw.randint(4, 6)},nearest_even,saturate"
    result = f"s{width}f{width - draw.randint(3, 5)},nearest_even,saturate"
    size = f"--lanes {draw.choice((1, 2, 3, 4))} --max-length {draw.randint(128, 2048)}"
    return f"{unit} {size} --input-format {given} --output-format {result}"


def _designs(seed: int, each: int) -> Iterator[tuple[str, Design]]:
    """Yield command lines and their designs, ``each`` of every family; a draw that a unit refuses is drawn again."""
    draw = random.Random(seed)
    for family in (_activation, _softmax, _norm):
        count = 0
        while count < each:
            command = family(draw)
            try:
                design = emit_unit(*_split(command))
            except InputError:
                continue
            count += 1
            yield command, design


def _split(command: str) -> tuple[str, list[str]]:
    unit, *options = shlex.split(command)
    return unit, options


def _read(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _write(file: Path, rows: list[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def predict(file: Path, target: str, seed: int, each: int) -> None:
    """Draw designs and write what the model says of them."""
    rows = _read(file)
    if any(row["seed"] == str(seed) for row in rows):
        raise SystemExit(f"seed {seed} was drawn already; take another")
    model = load_model(target)
    digest = hashlib.sha256((ROOT / "accel" / "data" / "fpga" / f"{target}.yaml").read_bytes()).hexdigest()
    for command, design in _designs(seed, each):
        unit, _ = _split(command)
        said = model.predict(unit, family_of(design.description), design.description)
        row = {
            "seed": str(seed),
            "command": command,
            "model_sha256": digest,
            "verilog_sha256": hashlib.sha256(design.verilog.encode()).hexdigest(),
            "extrapolated": " ".join(said.extrapolated),
        }
        rows.append(row | {f"predicted_{name}": f"{said.counts[name]:.2f}" for name in QUANTITIES})
        print(command, flush=True)
    _write(file, rows)


def synthesise_all(file: Path, target: str, cache: Path) -> None:
    """Fill in what synthesis finds; refuse a design whose Verilog is no longer the predicted one."""
    rows = _read(file)
    for row in rows:
        if row["tools"]:
            continue
        design = emit_unit(*_split(row["command"]))
        if hashlib.sha256(design.verilog.encode()).hexdigest() != row["verilog_sha256"]:
            raise SystemExit(f"{row['command']} is another design than the predicted one; draw another seed")
        found = synthesise(design, target, cache=cache)
        row.update({f"synthesised_{name}": f"{getattr(found, name):g}" for name in QUANTITIES})
        row["tools"] = f"yosys {found.yosys_version}"
        _write(file, rows)
        print(row["command"], flush=True)


def show(file: Path) -> None:
    """Print predictions beside synthesis, seed by seed, and how many are within the limit."""
    rows = [row for row in _read(file) if row["tools"]]
    for seed in dict.fromkeys(row["seed"] for row in rows):
        drawn = [row for row in rows if row["seed"] == seed]
        print(f"seed {seed}, model {drawn[0]['model_sha256'][:12]}")
        within = dict.fromkeys(QUANTITIES, 0)
        for row in drawn:
            cells = []
            for name in QUANTITIES:
                said, found = float(row[f"predicted_{name}"]), float(row[f"synthesised_{name}"])
                # Multipliers and block memories are few: one of them more or less is within the limit too.
                slack = 1.0 if name in ("dsp_count", "block_ram_count") else 0.0
                within[name] += abs(said - found) <= max(LIMIT * found, slack)
                cells.append(f"{said:8.1f} / {found:g} ({100 * (said - found) / max(found, 1):+.1f} %)")
            print(f"  {row['command']}{' (extrapolated)' if row['extrapolated'] else ''}")
            print("      " + "   ".join(cells))
        for name, count in within.items():
            print(f"  {name:16} {count} of {len(drawn)} within {LIMIT:.0%}")


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("step", choices=("predict", "synthesise", "show"))
    options.add_argument("--target", default="ecp5", choices=("ecp5", "xilinx"))
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--each", type=int, default=4, help="designs of each family")
    options.add_argument("--cache", type=Path, default=ROOT / "build" / "synth")
    options.add_argument("--file", type=Path, help="default: benchmarks/data/fpga_blind_TARGET.csv")
    chosen = options.parse_args()
    file = chosen.file or ROOT / "benchmarks" / "data" / f"fpga_blind_{chosen.target}.csv"
    if chosen.step == "predict":
        predict(file, chosen.target, chosen.seed, chosen.each)
    elif chosen.step == "synthesise":
        synthesise_all(file, chosen.target, chosen.cache)
    else:
        show(file)


if __name__ == "__main__":
    main()
