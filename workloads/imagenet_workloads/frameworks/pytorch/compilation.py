"""torch.compile of the network that trains and is validated. Imports PyTorch.

It generates C++ on a CPU, and Triton's kernels on a GPU. Both call a compiler when the first batch
is trained. Where the user asked for compiled code, the compiler is looked for before the worker
joins the others, and nothing else trains. Where compiling is the default, the network itself trains
if it fails.
"""

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import TorchDynamoException

from imagenet_workloads.checkpoint.manifest import COMPILED_FILE
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.pytorch.compile_cache import folder_of_this_user

_log = logging.getLogger(__name__)


def choose(
    asked: bool | None, resumed: Path | None, device: torch.device, certain: bool
) -> bool | None:
    """Return whether the network is compiled; False if that was chosen and fails, None if not.

    Compiled code rounds differently, so a training goes on as it began. Without a compiler, what
    is compiled by default is not, with a warning.

    Args:
        asked: by the user; None without an answer.
        resumed: the checkpoint of this training that it goes on from; None at its beginning.
        device: that trains.
        certain: whether the training must have the same bits each time.

    Raises:
        InputError: the checkpoint is damaged.
    """
    if asked is not None:
        return asked or None
    if resumed is not None:
        # Without the file, it began before compiling was the default.
        path = resumed / COMPILED_FILE
        if not path.exists():
            return None
        if Fields.read(path).values.get("compiled") is not True:
            return False
    elif device.type != "cuda" or certain:
        return None
    missing = missing_compiler(device)
    if missing is not None:
        _log.warning(
            "training goes on without compiled code, and is slower: %s, or write --compile 0 "
            "(training.compile: false)",
            missing,
        )
    return missing is None


def record(folder: Path, is_compiled: bool) -> None:
    """Write into a checkpoint that is not complete yet whether compiled code trains."""
    (folder / COMPILED_FILE).write_text(json.dumps({"compiled": is_compiled}) + "\n")


def missing_compiler(device: torch.device) -> str | None:
    """Return which compiler torch.compile lacks here, and the remedy; None if there is one."""
    variable, usual = ("CC", "gcc") if device.type == "cuda" else ("CXX", "g++")
    compiler = os.environ.get(variable, usual)
    if shutil.which(compiler) is not None:
        return None
    return (
        f"torch.compile calls the compiler {compiler}, which is missing here; install {usual}, "
        f"set {variable}"
    )


def require_compiler(device: torch.device) -> None:
    """Look for the compiler that torch.compile calls.

    Raises:
        InputError: there is none.
    """
    missing = missing_compiler(device)
    if missing is not None:
        raise InputError(f"--compile (training.compile): {missing}, or leave it out")


class Fallback:
    """What the compiled networks of a training share.

    Attributes:
        is_taken: whether the networks themselves compute, because compiling one of them failed.
    """

    is_taken = False


class CompiledNetwork(nn.Module):  # type: ignore[misc]
    """A network whose passes run compiled code; its parameters and buffers are the network's.

    Attributes:
        fallback: whether the network itself computes.
    """

    def __init__(self, network: nn.Module, *, is_required: bool, sizes: int = 1) -> None:
        """Compile nothing yet.

        Args:
            network: whose batches have few sizes; each is compiled for itself.
            is_required: whether a failing compile is an error.
            sizes: how many.
        """
        super().__init__()
        self.network = network
        self._is_required = is_required
        self.fallback = Fallback()
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder_of_this_user()))
        if not is_required:
            # So that all that can fail does so in the forward pass.
            torch._functorch.config.force_non_lazy_backward_lowering = True
        # Not by the name of a module: its parameters would be there twice.
        self._compiled = [
            torch.compile(
                network,
                dynamic=False,
                # Beyond its limit, PyTorch would run the network without a word.
                recompile_limit=sizes * torch._dynamo.config.recompile_limit,
            )
        ]

    def forward(self, images: torch.Tensor) -> Any:
        """Compute the scores."""
        if self.fallback.is_taken:
            return self.network(images)
        try:
            return self._compiled[0](images)
        except TorchDynamoException as error:
            if self._is_required:
                raise
            # Its second line is what the compiler said.
            said = " ".join(str(error).split("\n")[:2])
            _log.warning(
                "torch.compile failed, so training goes on without compiled code, and is slower; "
                "--compile 0 (training.compile: false) leaves it out: %s: %s",
                type(error).__name__,
                said,
            )
            self.fallback.is_taken = True
            return self.network(images)
