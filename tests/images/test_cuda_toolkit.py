"""The CUDA toolkit that Horovod is built with, put together from small files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cuda_toolkit

FILES = {
    "cuda_runtime": ("include/cuda_runtime.h", "include/crt/host.hpp", "lib/libcudart.so.12"),
    "cuda_nvcc": ("include/crt/host_config.h", "include/__init__.py"),
    "nccl": ("include/nccl.h", "lib/libnccl.so.2"),
    "cublas": ("include/cublas_v2.h", "include/__init__.py"),
}
INSTALLED = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12", "nvidia-nccl-cu12")


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name)


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """Debian's package, unpacked."""
    prefix = tmp_path / "debian"
    for program in cuda_toolkit.PROGRAMS:
        _write(prefix / program)
    _write(prefix / cuda_toolkit.LIBDEVICE / "libdevice.10.bc")
    return prefix


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with CUDA's packages for one release, and one for another."""
    folder = tmp_path / "site-packages"
    for name, files in FILES.items():
        for file in files:
            _write(folder / "nvidia" / name / file)
    for name in (*INSTALLED, "nvidia-cublas-cu12", "nvidia-cublas-cu11", "numpy"):
        metadata = folder / f"{name.replace('-', '_')}-1.dist-info/METADATA"
        _write(metadata)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    monkeypatch.setattr("sys.path", [str(folder)])
    return folder


def test_a_toolkit_has_compiler_headers_and_libraries(
    compiler: Path, site_packages: Path, tmp_path: Path
) -> None:
    into = tmp_path / "cuda"
    assert cuda_toolkit.main(["cu12", "--compiler", str(compiler), "--into", str(into)]) == 0
    links = {
        str(path.relative_to(into)): path.resolve() for path in into.rglob("*") if path.is_symlink()
    }
    debian = compiler / "usr/lib/nvidia-cuda-toolkit"
    packages = site_packages / "nvidia"
    assert links == {
        **{f"bin/{name}": debian / "bin" / name for name in ("nvcc", "cicc", "crt")},
        **{
            f"bin/{name}": compiler / "usr/bin" / name
            for name in ("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas")
        },
        "nvvm/libdevice": debian / "libdevice",
        "include/cuda_runtime.h": packages / "cuda_runtime/include/cuda_runtime.h",
        "include/crt/host.hpp": packages / "cuda_runtime/include/crt/host.hpp",
        "include/crt/host_config.h": packages / "cuda_nvcc/include/crt/host_config.h",
        "include/nccl.h": packages / "nccl/include/nccl.h",
        "include/cublas_v2.h": packages / "cublas/include/cublas_v2.h",
        "lib64/libcudart.so": packages / "cuda_runtime/lib/libcudart.so.12",
        "lib64/libnccl.so": packages / "nccl/lib/libnccl.so.2",
    }
    assert "TOP = $(_HERE_)/..\n" in (into / "bin/nvcc.profile").read_text()
    assert (into / "lib64/libcudadevrt.a").read_bytes() == b"!<arch>\n"


@pytest.mark.parametrize(
    ("absent", "message"),
    [
        ("site-packages/nvidia_nccl_cu12-1.dist-info", "nvidia-nccl-cu12 is not installed"),
        ("site-packages/nvidia/nccl/lib/libnccl.so.2", "no package has lib/libnccl.so.2"),
        ("debian/usr/bin/ptxas", "ptxas is missing; unpack Debian's nvidia-cuda-toolkit 11.8"),
    ],
)
@pytest.mark.usefixtures("site_packages")
def test_it_names_what_is_missing(
    absent: str, message: str, compiler: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / absent).rename(tmp_path / "absent")
    options = ["--compiler", str(compiler), "--into", str(tmp_path / "cuda")]
    assert cuda_toolkit.main(["cu12", *options]) == 1
    assert re.search(rf"^cuda_toolkit: error: .*{re.escape(message)}", capsys.readouterr().err)


@pytest.mark.usefixtures("site_packages")
def test_it_overwrites_no_toolkit(
    compiler: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cuda/bin").mkdir(parents=True)
    options = ["--compiler", str(compiler), "--into", str(tmp_path / "cuda")]
    assert cuda_toolkit.main(["cu12", *options]) == 1
    assert "exists" in capsys.readouterr().err
