"""Kueue in a schedule: it holds what has a queue, admits it after a while, and evicts some."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from chaos.counts import Counts
from chaos.world import ChaosCluster, JobWorld
from support.simulated_objects import Manifest, is_terminating
from support.simulated_queue import (
    PREEMPTED,
    is_gated,
    is_queued,
    mark_evicted,
    open_gate,
    whole_groups,
)

ADMISSION = 0.25
"""The chance that what waits is admitted at one look."""

EVICTION = 0.03
"""The chance that what was admitted is evicted at one look."""


@dataclass
class QueueController:
    """Kueue's controller; its webhooks are `simulated_queue.hold`.

    Attributes:
        cluster: What it admits.
        draw: What happens when.
        counts: Counts the evictions.
        is_seen: Whether an operator sees each eviction before the pods are gone. One that does not
            takes it for a disruption.
        evicts: Whether it takes quota back.
        is_away: Whether it does nothing.
    """

    cluster: ChaosCluster
    draw: random.Random
    counts: Counts
    is_seen: bool
    evicts: bool = True
    is_away: bool = False

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(self.draw.uniform(1, 8))
            for world in () if self.is_away else list(self.cluster.worlds.values()):
                self._look_at(world)

    def _look_at(self, world: JobWorld) -> None:
        for pod in world.members():
            # Kueue's finalizer kept it until its end was seen.
            if is_terminating(pod) and "nodeName" not in pod["spec"]:
                world.remove(pod)
        for group in whole_groups(world.members()):
            if any(is_gated(pod) for pod in group):
                if self.draw.random() < ADMISSION:
                    self._admit(world, group)
            elif self.evicts and self.draw.random() < EVICTION:
                self._evict(world, group)
        for job in world.unfinished_jobs():
            is_held = bool(job["spec"].get("suspend"))
            if is_queued(job) and self.draw.random() < (
                ADMISSION if is_held else EVICTION * self.evicts
            ):
                job["spec"] = {**job["spec"], "suspend": not is_held}
                world.publish(job)

    def _admit(self, world: JobWorld, group: list[Manifest]) -> None:
        for pod in group:
            if not is_terminating(pod):
                open_gate(pod)
                world.publish(pod)

    def _evict(self, world: JobWorld, group: list[Manifest]) -> None:
        evicted = [pod for pod in group if not (world.is_finished(pod) or is_terminating(pod))]
        if evicted:
            self.counts.inject("evicted by Kueue")
            world.disruptions += not self.is_seen
        for pod in evicted:
            mark_evicted(pod, PREEMPTED)
            pod["metadata"]["deletionTimestamp"] = self.cluster.storage.now()
            world.publish(pod)
