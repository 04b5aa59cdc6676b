"""torch.compile of the module that trains. Imports PyTorch.

It generates C++ on a CPU, and Triton's kernels on a GPU. Both call a compiler when the first batch
is trained, so the compiler is looked for before the worker joins the others.
"""

import os
import shutil
import tempfile
from pathlib import Path

import torch
from torch import nn

from imagenet_workloads.errors import InputError


def check(device: torch.device) -> None:
    """Look for the compiler that torch.compile calls, and choose the folder of its results.

    Raises:
        InputError: there is none.
    """
    variable, usual = ("CC", "gcc") if device.type == "cuda" else ("CXX", "g++")
    compiler = os.environ.get(variable, usual)
    if shutil.which(compiler) is None:
        raise InputError(
            f"--compile (training.compile): torch.compile calls the compiler {compiler}, which is "
            f"missing here; install {usual}, set {variable}, or leave it out"
        )
    # PyTorch's own choice has the user's name, and in a pod the user may have none.
    folder = Path(tempfile.gettempdir(), "torchinductor")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))


def compiled(module: nn.Module) -> nn.Module:
    """Return the compiled module; all batches have one size."""
    result: nn.Module = torch.compile(module, dynamic=False)
    return result
