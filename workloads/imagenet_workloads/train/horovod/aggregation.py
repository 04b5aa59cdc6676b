"""One page of metrics for a pod of several slots, out of a page of each; pure.

What counts (counters, histograms) and what a pod has of everything (speed, memory) is added up.
All else, such as the epoch or the accuracy, is the same everywhere or reported by the first rank
for all, so the first slot that has it speaks for the pod.
"""

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from imagenet_workloads.telemetry.names import TRAIN_IMAGES_PER_SECOND

ADDED_TYPES = ("counter", "histogram", "summary")
ADDED_GAUGES = (
    TRAIN_IMAGES_PER_SECOND.name,
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
)

# A series: its name and its labels.
_Key = tuple[str, tuple[tuple[str, str], ...]]


def aggregate(pages: Iterable[str]) -> list[Family]:
    """Make one page of the slots' pages, in the order of their ranks.

    Args:
        pages: in Prometheus's text format; an empty one is a slot that has not answered yet.

    Returns:
        the families, for prometheus_client to write.
    """
    found: dict[str, Family] = {}
    samples: dict[str, dict[_Key, Sample]] = {}
    for page in pages:
        for family in text_string_to_metric_families(page):
            found.setdefault(family.name, family)
            _add(samples.setdefault(family.name, {}), family.samples, _is_added(family))
    for name, family in found.items():
        family.samples = list(samples[name].values())
    return list(found.values())


def _add(known: dict[_Key, Sample], more: Sequence[Sample], added: bool) -> None:
    for sample in more:
        key = sample.name, tuple(sorted(sample.labels.items()))
        before = known.setdefault(key, sample)
        if added and before is not sample:
            known[key] = before._replace(value=before.value + sample.value)


def _is_added(family: Family) -> bool:
    return family.type in ADDED_TYPES or family.name in ADDED_GAUGES
