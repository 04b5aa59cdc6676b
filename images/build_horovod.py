"""Builds Horovod's wheel for MXNet or TensorFlow; `make install-horovod` and the images run it.

Horovod comes as source only, compiled against one installed framework. So the Python that runs this
is that of an environment which has the framework, and the tools that constraints/horovod.txt pins:

    .venv-horovod/bin/python images/build_horovod.py mxnet --into build/horovod

A build takes minutes, so wheels are cached under a hash of everything that goes into one. The build
of an image has those that `make image-NAME` has put into images/kept, and takes one by the same
name. They serve in any folder: Horovod imports the framework first, and the loader then takes the
libraries that are there already. Gloo is the only transport on CPUs, without MPI. With `--cuda`,
slots on GPUs reduce over NCCL; its value is a folder that images/cuda_toolkit.py made. The patch
beside this program lets workers on CPUs keep their cores while they have nothing to reduce.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

VERSION = "0.28.1"
# Of the source on PyPI.
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
FRAMEWORKS = ("mxnet", "tensorflow", "pytorch")
# What TensorFlow is called on PyPI, by the environment that has it.
DISTRIBUTIONS = {
    "mxnet": ("mxnet", "mxnet-cu112"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
TOOLS = ("cmake", "setuptools", "wheel")
PATCH = Path(__file__).with_name("horovod-idle-cycle.patch")
# The version marks the patched wheel: 0.28.1+idle.cycle.
PATCHED = {"HOROVOD_LOCAL_VERSION": "idle.cycle"}
# RelWithDebInfo, which Horovod's setup.py insists on, without its -g: that is a third of the
# compilation and most of the wheel.
TOOLCHAIN = 'set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG" CACHE STRING "")\n'
# Over NCCL, whose library the framework's image has, as well as CUDA's.
OVER_NCCL = {
    "HOROVOD_GPU_OPERATIONS": "NCCL",
    "HOROVOD_NCCL_LINK": "SHARED",
    "HOROVOD_WITHOUT_NVTX": "1",
}
# Compute capabilities; the last one also gets PTX, for newer GPUs.
CAPABILITIES = {"mxnet": "50,60,70,80,86", "tensorflow": "50,60,70,75,80,86,89,90"}
# The loader finds all libraries from the place of Horovod's own, in whatever environment.
CUDA_TOOLCHAIN = """\
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CMAKE_CUDA_FLAGS_INIT -cudart=shared)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "{origins}")
"""
BESIDE = {
    "mxnet": ("mxnet", "nvidia/cuda_runtime/lib", "nvidia/nccl/lib"),
    "tensorflow": (
        *("tensorflow", "tensorflow/python"),
        *("nvidia/cuda_runtime/lib", "nvidia/nccl/lib"),
    ),
}
CUDA_PACKAGE = re.compile(r"nvidia-.+-cu1[12]$")
TOLD = re.compile(r"HOROVOD_|CMAKE_|(C|CXX|CPP|CUDA|LD)FLAGS$")


class BuildError(Exception):
    """The wheel cannot be built; says what is missing."""


def settings(framework: str, cuda: Path | None = None) -> dict[str, str]:
    """Return the variables by which Horovod's setup.py decides what to build.

    Args:
        framework: One of `DISTRIBUTIONS`.
        cuda: The folder of a CUDA toolkit, for slots on GPUs; None for CPUs.
    """
    others = {name: "WITHOUT" for name in FRAMEWORKS if name != framework}
    wanted = {framework: "WITH", "gloo": "WITH", "mpi": "WITHOUT"} | others
    named = {f"HOROVOD_{choice}_{name.upper()}": "1" for name, choice in wanted.items()}
    if cuda is None:
        return named
    return {**named, **OVER_NCCL, "HOROVOD_BUILD_CUDA_CC_LIST": CAPABILITIES[framework]}


def toolchain(framework: str, cuda: Path | None) -> str:
    """Return the file that CMake reads before Horovod's own."""
    if cuda is None:
        return TOOLCHAIN
    return TOOLCHAIN + CUDA_TOOLCHAIN.format(
        origins=";".join(rf"\$ORIGIN/../../{folder}" for folder in BESIDE[framework])
    )


def ingredients(
    framework: str, compiler: str, variables: Mapping[str, str], cuda: Path | None = None
) -> dict[str, str]:
    """Give everything that decides about the wheel's content.

    Existing variables of Horovod's setup.py and of the compiler take precedence.

    Raises:
        BuildError: the environment lacks the framework or a tool.
    """
    return {
        "horovod": VERSION,
        **{name: value for name, value in variables.items() if TOLD.match(name)},
        **settings(framework, cuda),
        **PATCHED,
        "patch": PATCH.read_text(),
        "toolchain": toolchain(framework, cuda),
        **_installed(DISTRIBUTIONS[framework]),
        **{name: version for tool in TOOLS for name, version in _installed((tool,)).items()},
        "compiler": _first_line([compiler, "--version"]),
        "python": str(sysconfig.get_config_var("SOABI")),
        "libc": "-".join(platform.libc_ver()),
        **({} if cuda is None else _of_cuda(cuda)),
    }


def key(parts: Mapping[str, str]) -> str:
    """Give the name under which a wheel of these ingredients is kept."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def find_compiler(variables: Mapping[str, str]) -> str:
    """Give the C++ compiler that CMake will take.

    Raises:
        BuildError: there is none, or no make or patch.
    """
    compiler = variables.get("CXX") or "c++"
    for program in (compiler, "make", "patch"):
        if shutil.which(program, path=variables.get("PATH")) is None:
            raise BuildError(
                f"no {program} on the PATH: Horovod is built from source and needs a C++ "
                "compiler, make and patch (Debian, Ubuntu: apt-get install g++ make patch)"
            )
    return compiler


def environment(
    framework: str, variables: Mapping[str, str], cuda: Path | None = None
) -> dict[str, str]:
    """Give the environment of a build, on top of this process's."""
    return {
        **variables,
        **settings(framework, cuda),
        **({} if cuda is None else {"HOROVOD_CUDA_HOME": str(cuda.absolute())}),
        # As many compilers as cores; Horovod's own choice is 8, each of which takes half a GiB.
        # What a make that runs this has put there is its own affair.
        "MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}",
        # CMake is of the environment, where it is a package like any other.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{variables.get('PATH', '')}",
    }


def build(framework: str, into: Path, cuda: Path | None = None) -> Path:
    """Build the wheel in a folder; give its path.

    Raises:
        BuildError: Horovod does not build here.
    """
    variables = environment(framework, os.environ, cuda)
    print(f"Horovod {VERSION} is built for {framework}; that takes some minutes", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "toolchain.cmake")
        file.write_text(toolchain(framework, cuda))
        variables.setdefault("CMAKE_TOOLCHAIN_FILE", str(file))
        source = _patched_source(Path(folder), variables)
        options = ("--no-cache-dir", "--wheel-dir", folder)
        _pip("wheel", *options, source, variables=variables | PATCHED)
        (wheel,) = Path(folder).glob("horovod-*.whl")
        return Path(shutil.copy(wheel, into))


def _patched_source(folder: Path, variables: Mapping[str, str]) -> Path:
    """Return the folder of Horovod's source with the patch in it."""
    wanted = folder / "requirements.txt"
    wanted.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n")
    options = ("--no-binary", "horovod", "--dest", folder, "--require-hashes", "--requirement")
    _pip("download", *options, wanted, variables=variables)
    shutil.unpack_archive(next(folder.glob("horovod-*.tar.gz")), folder)
    source = folder / f"horovod-{VERSION}"
    # Without fuzz: a hunk whose surroundings are others was not written for this source.
    exactly = ("--quiet", "--strip=1", "--fuzz=0", f"--input={PATCH}")
    _run(["patch", f"--directory={source}", *exactly], variables)
    return source


def _pip(command: str, *options: str | Path, variables: Mapping[str, str]) -> None:
    own = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*own, *map(str, options)], variables)


def _run(command: list[str], variables: Mapping[str, str]) -> None:
    ended = subprocess.run(command, env=variables, check=False)
    if ended.returncode:
        raise BuildError(f"Horovod {VERSION} does not build here: see above")


def main(arguments: list[str] | None = None) -> int:
    """Leave the wheel in a folder, built now or kept from an earlier time."""
    parser = argparse.ArgumentParser(description="Build Horovod's wheel for this environment.")
    parser.add_argument("framework", choices=sorted(DISTRIBUTIONS))
    parser.add_argument("--into", type=Path, required=True, help="folder that gets the wheel")
    parser.add_argument("--cache", type=Path, default=_cache(), help="folder of kept wheels")
    parser.add_argument(
        "--cuda", type=Path, help="folder of a CUDA toolkit: reduce over NCCL between GPUs"
    )
    chosen = parser.parse_args(arguments)
    chosen.into.mkdir(parents=True, exist_ok=True)
    for former in chosen.into.glob("horovod-*.whl"):
        former.unlink()
    try:
        compiler = find_compiler(os.environ)
        parts = ingredients(chosen.framework, compiler, os.environ, chosen.cuda)
        kept = chosen.cache / key(parts)
        wheel = next(kept.glob("horovod-*.whl"), None)
        if wheel is not None:
            shutil.copy(wheel, chosen.into)
        else:
            _keep(build(chosen.framework, chosen.into, chosen.cuda), kept)
    except BuildError as error:
        print(f"build_horovod: error: {error}", file=sys.stderr)
        return 1
    return 0


def _keep(wheel: Path, kept: Path) -> None:
    """Keep a wheel for the next time, whole or not at all; a cache that cannot is none."""
    temporary = kept / f".{os.getpid()}"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, temporary)
        temporary.replace(kept / wheel.name)
    except OSError as error:
        print(f"build_horovod: the wheel is not kept in {kept}: {error}", file=sys.stderr)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "imagenetjob" / "horovod"


def _installed(names: tuple[str, ...]) -> dict[str, str]:
    for name in names:
        try:
            return {name: importlib.metadata.version(name)}
        except importlib.metadata.PackageNotFoundError:
            continue
    raise BuildError(
        f"{sys.prefix} has no {' or '.join(names)}; install it from PyPI first, at the version "
        f"in constraints/: {sys.executable} -m pip install {names[0]}"
    )


def _of_cuda(cuda: Path) -> dict[str, str]:
    """Return the versions of the CUDA compiler and of the packages with headers and libraries."""
    nvcc = cuda / "bin/nvcc"
    if not nvcc.exists():
        raise BuildError(f"{nvcc} is missing; images/cuda_toolkit.py makes the folder")
    told = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    found = {
        name: distribution.version
        for distribution in importlib.metadata.distributions()
        if CUDA_PACKAGE.match(name := distribution.metadata["Name"].lower().replace("_", "-"))
    }
    return {"nvcc": told.strip().splitlines()[-1], **found}


def _first_line(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
