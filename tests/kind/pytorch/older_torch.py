"""Debian's PyTorch, 1.13, with what this project uses of newer ones: only for stories.

Each function does on a CPU what the newer one does there. Loaded by a .pth file, so that the
programs of the project stay as they are.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import torch
from torch import distributed
from torch.nn import init


def _with_generator(draw: Any) -> Any:
    """Return an initializer that draws from a generator, as since PyTorch 2.4."""

    def drawn(tensor: Any, *arguments: Any, generator: Any = None) -> Any:
        if generator is None:
            return draw(tensor, *arguments)
        with torch.random.fork_rng(devices=[]):
            torch.random.set_rng_state(generator.get_state())
            draw(tensor, *arguments)
            generator.set_state(torch.random.get_rng_state())
        return tensor

    return drawn


def _autocast(device: str, dtype: Any, enabled: bool) -> AbstractContextManager[Any]:
    """Refuse no type while it is turned off, as since PyTorch 2.1."""
    return _older_autocast(device, dtype) if enabled else nullcontext()


def _store(*arguments: Any, master_listen_fd: int | None = None, **named: Any) -> Any:
    """Listen on each address: before PyTorch 2.0 a store took no socket."""
    if master_listen_fd is not None:
        os.close(master_listen_fd)
    return _older_store(*arguments, **named)


def _init_process_group(*arguments: Any, device_id: Any = None, **named: Any) -> None:
    """Take a device, as since PyTorch 2.3."""
    assert device_id is None, "the stories have no GPU"
    _older_init_process_group(*arguments, **named)


class _TorchDynamoException(RuntimeError):  # noqa: N818 - PyTorch's own name
    """An error of torch.compile, which this version lacks and no story asks for."""


_exceptions = ModuleType("torch._dynamo.exc")
_exceptions.TorchDynamoException = _TorchDynamoException  # type: ignore[attr-defined]
sys.modules["torch._dynamo"] = ModuleType("torch._dynamo")
sys.modules["torch._dynamo.exc"] = _exceptions
torch.Tensor.nbytes = property(lambda tensor: tensor.numel() * tensor.element_size())
_older_autocast = torch.autocast
_older_store = distributed.TCPStore
_older_init_process_group = distributed.init_process_group
torch.autocast = _autocast
distributed.TCPStore = _store
distributed.init_process_group = _init_process_group
torch.amp.GradScaler = lambda device, enabled: torch.cuda.amp.GradScaler(enabled=enabled)
for _name in ("kaiming_normal_", "xavier_uniform_"):
    setattr(init, _name, _with_generator(getattr(init, _name)))
