"""Files appear whole or not at all, whatever goes wrong on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.errors import InputError
from accel.files import write_text, writing


def test_a_file_is_replaced_and_keeps_its_mode_and_links(tmp_path: Path) -> None:
    file, link = tmp_path / "a.txt", tmp_path / "b.txt"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    write_text(link, "new\n")
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"
    assert file.stat().st_mode & 0o777 == 0o600
    write_text(tmp_path / "c.txt", "é")
    assert (tmp_path / "c.txt").read_bytes() == "é".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError, OSError(28, "No space left on device")])
def test_after_a_fault_the_old_file_stands_and_nothing_else(tmp_path: Path, fault: type[BaseException]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    expected = InputError if isinstance(fault, OSError) else fault
    with pytest.raises(expected) as caught, writing(file) as stream:
        stream.write(b"half of the n")
        raise fault
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    if expected is InputError:
        message = f"{file} must be writable: No space left on device; free some space, or write to another disk"
        assert str(caught.value) == message


def test_what_is_no_regular_file_is_written_directly() -> None:
    write_text(Path("/dev/null"), "nothing")
    with pytest.raises(InputError, match=r"^/dev/full must be writable: No space left on device; free some space"):
        write_text(Path("/dev/full"), "a" * 100_000)


def test_a_folder_is_made_on_request_and_a_folder_is_no_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "c.txt", "deep", make_folder=True)
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "deep"
    with pytest.raises(InputError) as caught:
        write_text(tmp_path / "no" / "c.txt", "")
    assert (
        str(caught.value)
        == f"{tmp_path / 'no' / 'c.txt'} must be writable: No such file or directory; check the folder"
    )
    with pytest.raises(InputError) as caught:
        write_text(tmp_path / "a", "")
    assert str(caught.value) == f"{tmp_path / 'a'} must be writable: Is a directory; name a file, not a folder"
