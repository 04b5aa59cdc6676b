"""DistributedDataParallel: one process a device; the backward pass averages gradients in buckets.

With GPUs gradients go over NCCL, and whole numbers over Gloo, so that they do not wait for the
GPU. Without GPUs all goes over Gloo. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name the process
and the place where all meet. Imports PyTorch.
"""

import os
import socket
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.train.moving_statistics import Rows, padded

# Of a sum: the others wait while rank 0 waits for a checkpoint in flight. A lost process is
# noticed at once.
TIMEOUT = timedelta(minutes=30)


class DistributedProcess:
    """One of several synchronised processes, which has joined; implements `Strategy`."""

    collective = True

    def __init__(self, device: torch.device, rank: int, workers: int) -> None:
        self.device, self.rank, self.workers = device, rank, workers
        self.images_divisor = workers

    def distribute(self, network: nn.Module) -> nn.Module:
        """Wrap the network; BatchNorm's statistics stay those of each process."""
        with warnings.catch_warnings():
            # PyTorch 2.15 warns that another option will replace this one. Older versions lack it,
            # and with it buffers would still be copied from rank 0 here.
            warnings.filterwarnings("ignore", "`broadcast_buffers`", FutureWarning)
            self._module = DistributedDataParallel(
                network,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                # Otherwise buckets change after the first step, and with them the order of a sum.
                find_unused_parameters=torch.are_deterministic_algorithms_enabled(),
            )
        return self._module

    def accumulating(self) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self._module.no_sync()
        return context

    def start_sum(self, numbers: Sequence[int]) -> Callable[[], list[int]]:
        shared = torch.tensor(list(numbers), dtype=torch.int64)
        work = distributed.all_reduce(shared, async_op=True)

        def wait() -> list[int]:
            work.wait()
            found: list[int] = shared.tolist()
            return found

        return wait

    def gather(self, own: Rows) -> Rows:
        """Sum rows that are zero but on one process, over Gloo."""
        rows = padded(own, self.rank, self.workers)
        # The sum is written into the array's memory.
        distributed.all_reduce(torch.from_numpy(rows))
        return rows

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return self.add(numbers if self.rank == 0 else [0] * len(numbers))

    def add(self, numbers: Sequence[int]) -> list[int]:
        return self.start_sum(numbers)()

    def wait_for_all(self) -> None:
        self.add([0])

    def close(self) -> None:
        """Leave; every other process leaves too, because it cannot go on without this one."""
        distributed.destroy_process_group()


def join(device: torch.device) -> DistributedProcess:
    """Join; return when every process has joined."""
    process = Process.from_mapping(os.environ)
    assert process is not None, "the rendezvous has read it"
    on_gpu = device.type == "cuda"
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=address_store(process),
        rank=process.rank,
        world_size=process.size,
        timeout=TIMEOUT,
        device_id=device if on_gpu else None,
    )
    return DistributedProcess(device, process.rank, process.size)


def address_store(process: Process) -> distributed.Store:
    """Return the store in which processes exchange addresses; rank 0 serves it.

    In a local run each pod has a loopback address of its own, and all pods the same port. PyTorch
    would listen on every address, so it is given a socket that listens on one.
    """
    if process.rank:
        return distributed.TCPStore(process.host, process.port, process.size, False, TIMEOUT)
    listening = socket.create_server((process.host if process.is_local else "", process.port))
    return distributed.TCPStore(
        process.host,
        process.port,
        process.size,
        is_master=True,
        timeout=TIMEOUT,
        master_listen_fd=listening.detach(),
    )
