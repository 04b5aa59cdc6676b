"""The library that images/build_horovod.py has built."""

from __future__ import annotations

from importlib.metadata import files


def test_it_has_no_debugging_information() -> None:
    """Which would be most of it, in every image."""
    built = [file for file in files("horovod") or [] if file.name.startswith("mpi_lib")]
    assert built
    assert all(b".debug_info" not in file.locate().read_bytes() for file in built)  # type: ignore[attr-defined]
