"""What a program exports for Prometheus, as a test reads it."""

from __future__ import annotations

from imagenet_workloads.telemetry.server import Registry


def values(registry: Registry) -> dict[str, float]:
    """What is exported, by name, without the buckets and the process's own."""
    return {
        sample.name: sample.value
        for family in registry.exported.collect()
        for sample in family.samples
        if sample.name.startswith("imagenet_") and not sample.name.endswith("_bucket")
    }
