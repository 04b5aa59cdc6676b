"""A job of workers that TF_CONFIG lists, as real processes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from support.members import Members
from support.training_cluster import PROGRAM, free_port, plain_environment

STRATEGY = ("--framework", "TensorFlow", "--distribution-strategy", "multi_worker_mirrored")


@dataclass
class ListedWorkers(Members):
    """Starts the workers.

    Attributes:
        arguments: of all of them.
        workers: how many are listed.
        present: how many of them, from the first, come.
    """

    arguments: Sequence[str]
    workers: int = 2
    present: int = 2

    def __enter__(self) -> Self:
        self.begin()
        listed = [f"127.0.0.1:{free_port()}" for _ in range(self.workers)]
        for index in range(self.present):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": {"worker": listed}, "task": task})
            command = [str(PROGRAM), *STRATEGY, *self.arguments]
            self.launch(f"worker-{index}", command, plain_environment(TF_CONFIG=config))
        return self
