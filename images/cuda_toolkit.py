"""Puts a CUDA toolkit together, for the build of Horovod with NCCL (images/build_horovod.py).

    python images/cuda_toolkit.py cu11 --compiler /debian --into /cuda

PyPI has CUDA's headers and libraries for each release, as nvidia-*-cu11 and nvidia-*-cu12, but only
parts of the compiler. Debian's package nvidia-cuda-toolkit (non-free) has nvcc 11.8; `--compiler`
is the folder where `dpkg --extract` unpacked it. nvcc 11.8 also compiles Horovod's kernels with the
headers of CUDA 12.2. The toolkit consists of links, so both sources must stay.
"""

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path

RELEASES = ("cu11", "cu12")
NEEDED = ("nvidia-cuda-runtime", "nvidia-cuda-nvcc", "nvidia-nccl")
# Under the prefix of Debian's package.
PROGRAMS = (
    "usr/lib/nvidia-cuda-toolkit/bin/nvcc",
    "usr/lib/nvidia-cuda-toolkit/bin/cicc",
    "usr/lib/nvidia-cuda-toolkit/bin/crt",
    *(f"usr/bin/{name}" for name in ("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas")),
)
LIBDEVICE = "usr/lib/nvidia-cuda-toolkit/libdevice"
# Link names, which PyPI's packages lack. The linker reads the library's own name from the file.
LINKED = {"libcudart.so": "libcudart.so.1*", "libnccl.so": "libnccl.so.2"}
# nvcc looks here for what it calls, and CMake for the toolkit's folder.
PROFILE = """\
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
"""
# nvcc always links the library for kernels that start kernels. Horovod has none of these.
EMPTY_ARCHIVE = b"!<arch>\n"


class ToolkitError(Exception):
    """Part of the toolkit is missing; says which."""


def packages(release: str) -> dict[str, Path]:
    """Return the folders of the installed CUDA packages of a release, by package.

    Raises:
        ToolkitError: a needed package is not installed.
    """
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"].lower().replace("_", "-")
        if name.startswith("nvidia-") and name.endswith(f"-{release}"):
            folder = name.removeprefix("nvidia-").removesuffix(f"-{release}").replace("-", "_")
            found[name] = Path(str(distribution.locate_file(f"nvidia/{folder}")))
    for name in NEEDED:
        if f"{name}-{release}" not in found:
            raise ToolkitError(f"{name}-{release} is not installed; install it from PyPI")
    return found


def assemble(folders: Sequence[Path], compiler: Path, into: Path) -> None:
    """Fill an empty folder with a toolkit.

    Args:
        folders: Of CUDA's packages from PyPI, with include/ and lib/.
        compiler: The prefix of Debian's package.
        into: The folder, which must not exist.

    Raises:
        ToolkitError: a file is missing.
    """
    for name in ("bin", "include", "lib64", "nvvm"):
        (into / name).mkdir(parents=True)
    for program in PROGRAMS:
        _link(into / "bin" / Path(program).name, compiler / program)
    (into / "bin/nvcc.profile").write_text(PROFILE)
    _link(into / "nvvm/libdevice", compiler / LIBDEVICE)
    for folder in folders:
        for header in sorted(folder.glob("include/**/*.h*")):
            _link(into / header.relative_to(folder), header)
    (into / "lib64/libcudadevrt.a").write_bytes(EMPTY_ARCHIVE)
    for name, pattern in LINKED.items():
        library = next((path for folder in folders for path in folder.glob(f"lib/{pattern}")), None)
        if library is None:
            raise ToolkitError(f"no package has lib/{pattern}")
        _link(into / "lib64" / name, library)


def _link(link: Path, target: Path) -> None:
    if not target.exists():
        raise ToolkitError(f"{target} is missing; unpack Debian's nvidia-cuda-toolkit 11.8 there")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target.absolute())


def main(arguments: Sequence[str] | None = None) -> int:
    """Leave a toolkit in a folder; return the exit code."""
    parser = argparse.ArgumentParser(description="Put a CUDA toolkit together.")
    parser.add_argument("release", choices=RELEASES)
    parser.add_argument("--compiler", type=Path, required=True, help="Debian's package, unpacked")
    parser.add_argument("--into", type=Path, required=True, help="the toolkit's folder, a new one")
    chosen = parser.parse_args(arguments)
    try:
        assemble(list(packages(chosen.release).values()), chosen.compiler, chosen.into)
    except (ToolkitError, FileExistsError) as error:
        print(f"cuda_toolkit: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
