"""What frames, designs and the search on a device say of wrong input, word for word."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from accel import spec
from accel.errors import InputError
from accel.frame import FeedForward, load_frame
from accel.frame_design import load_design
from mapping.published_frame import load_frame_published
from tests.conftest import Finished

Command = Callable[..., Finished]
MODEL, DESIGN = load_frame("m3vit"), load_design("edge-moe")

DATA = {
    "no hidden features": (lambda: FeedForward(hidden=0), "hidden must be at least 1, not 0; use 1"),
    "more chosen than there are": (
        lambda: FeedForward(hidden=8, experts=2, chosen=3),
        "chosen must be at most experts (2), not 3; use 2",
    ),
    "no pattern": (
        lambda: dataclasses.replace(MODEL, pattern=()),
        "pattern must hold at least one layer; add - hidden: 768",
    ),
    "patches that do not fill the image": (
        lambda: dataclasses.replace(MODEL, image_height=120),
        "image_height must be a multiple of patch (16), not 120; use 128",
    ),
    "no port": (lambda: dataclasses.replace(DESIGN, port_bits=0), "port_bits must be from 8 to 8192, not 0; use 8"),
    "too many slots": (lambda: dataclasses.replace(DESIGN, slots=999), "slots must be from 1 to 256, not 999; use 256"),
    "an efficiency above 1": (
        lambda: dataclasses.replace(DESIGN, memory_efficiency=1.5),
        "memory_efficiency must be above 0 and at most 1, not 1.5; 1 is a port that never waits",
    ),
    "a clock that stands still": (
        lambda: dataclasses.replace(DESIGN, clock_hz=0.0),
        "clock_hz must be above 0 and finite, not 0; 300e6 is 300 MHz",
    ),
    "a power below 0": (
        lambda: dataclasses.replace(DESIGN, measured_power_w=-1.0),
        "measured_power_w must be above 0 and finite, not -1; leave it out if it was not measured",
    ),
    "no folder": (
        lambda: load_frame_published(Path("nowhere")),
        "values.csv must be a readable file: No such file or directory; check the folder",
    ),
}


@pytest.mark.parametrize("case", DATA)
def test_descriptions(case: str) -> None:
    make, text = DATA[case]
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text


COMMANDS = {
    "an unknown device": (
        ["m3vit", "--device", "zcu103"],
        "error: 'zcu103' is not the name of a device; did you mean 'zcu102'? a file needs its .yaml ending",
    ),
    "an unknown frame": (
        ["m3vi", "--device", "zcu102"],
        "error: 'm3vi' is not the name of a vision transformer; did you mean 'm3vit'? a file needs its .yaml ending",
    ),
    "an unknown design": (
        ["m3vit", "--device", "zcu102", "--design", "edgemoe"],
        "error: 'edgemoe' is not the name of a frame design; did you mean 'edge-moe'? a file needs its .yaml ending",
    ),
    "a device without memory": (
        ["m3vit", "--device", "ice40-up5k"],
        (
            "error: device ice40-up5k must name its memory, as weights do not fit on chip; add memory to its "
            "description, as zcu102.yaml has it"
        ),
    ),
    "a family without samples of the core": (
        ["m3vit", "--device", "ecp5-85"],
        (
            "error: a frame design needs samples of the attention core on its FPGA family, and ecp5 has none; use "
            "artix7-100t, u280, zcu102"
        ),
    ),
    "an option of another search": (
        ["m3vit", "--device", "zcu102", "--arch", "edge"],
        "Error: --arch is not for --device; leave one of the two out",
    ),
    "a design without a device": (
        ["m3vit", "--design", "edge-moe"],
        "Error: --bits and --design are for --device; name one, such as --device zcu102",
    ),
    "a design that does not fit": (
        ["m3vit", "--device", "artix7-100t", "--design", "edge-moe"],
        "error: design edge-moe must fit artix7-100t, but takes",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_map_on_a_device(einrtl: Command, case: str) -> None:
    arguments, text = COMMANDS[case]
    ended = einrtl("map", *arguments)
    assert ended.code == 2
    assert text in ended.err
    assert "Traceback" not in ended.err


def test_a_design_that_does_not_fit_is_told_what_it_lacks_and_what_would_fit(einrtl: Command, tmp_path: Path) -> None:
    large = dataclasses.replace(DESIGN, name="large", tile=64, fused=True, feature_bits=16)
    (tmp_path / "large.yaml").write_text(spec.dump(large))
    ended = einrtl("map", "m3vit", "--device", "zcu102", "--design", tmp_path / "large.yaml")
    assert ended.code == 2
    text = " ".join(ended.err.split())
    assert text.startswith("error: design large must fit zcu102, but takes ")
    assert " of 2,520 multipliers (" in text and " too many)" in text
    assert "with tile " in text and "it fits u280" in text


def test_a_space_of_which_nothing_fits_names_its_smallest_design(einrtl: Command) -> None:
    ended = einrtl("map", "m3vit", "--device", "artix7-100t", "--bits", "16")
    assert ended.code == 2
    text = " ".join(ended.err.split())
    assert text.startswith("error: the smallest design of the space must fit 80% of artix7-100t, but takes ")
    assert " of 108 block memories (" in text and text.endswith("it fits zcu102")


def test_reproduce_refuses_options_of_another_study(einrtl: Command) -> None:
    ended = einrtl("reproduce", "edge-moe", "--all")
    assert ended.code == 2
    assert "--all is for fusemax; edge-moe is shown whole, without it" in ended.err
