"""The parts of a recovery, and the table of them: pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

PARTS = (
    *("noticed", "pods ended", "restarted", "running"),
    *("starting", "joining", "restoring", "data", "first step"),
)
"""The parts of a recovery, in the order of time.

`noticed` ends when the operator ends the attempt, `pods ended` with the attempt's last pod,
`restarted` with the pods of the next attempt, after the rest of the back-off. `running` ends on
this machine when the operator has seen all members run, and on kind with the start of rank 0's
program, after the scheduler and the kubelet. The other parts are rank 0's own time from there.
`data` is its wait for the first batch.
"""

DATA_WAIT = "imagenet_train_data_wait_seconds_sum"


@dataclass(frozen=True)
class Timestamps:
    """When the parts of a recovery ended, as seconds since the epoch.

    Attributes:
        killed: The kill of a worker.
        ended: The last pod of its attempt had ended.
        noticed: The operator ended the attempt.
        restarted: The next attempt got its pods.
        started: The program of its rank 0 started.
        running: The end of the part of this name; not before `started`.
        stepped: Rank 0 had trained a step.
    """

    killed: float
    ended: float
    noticed: float
    restarted: float
    started: float
    running: float
    stepped: float


@dataclass(frozen=True)
class Place:
    """Where recoveries are measured.

    Attributes:
        recovery: A strategy and a job's name → the seconds of each part.
        beside_jobset: A number of rounds → the table beside JobSet; None without a cluster.
    """

    recovery: Callable[[str, str], dict[str, float]]
    beside_jobset: Callable[[int], str] | None = None


def durations(timestamps: Timestamps, figures: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each part, which add up to the time from the kill to the step.

    Args:
        timestamps: When the parts outside of the program ended.
        figures: Of rank 0 after its first step.
    """
    noticed, restarted, running = timestamps.noticed, timestamps.restarted, timestamps.running
    # The processes may end by themselves before the operator notices it.
    ended = min(max(timestamps.ended, noticed), restarted)
    own = {phase: figures.get(phase, 0.0) for phase in ("starting", "joining", "restoring")}
    # The program may have started before the part before it ended.
    own["starting"] = max(0.0, own["starting"] - (running - timestamps.started))
    before = {"noticed": noticed - timestamps.killed, "pods ended": ended - noticed}
    before |= {"restarted": restarted - ended, "running": running - restarted, **own}
    rest = timestamps.stepped - timestamps.killed - sum(before.values())
    data = min(figures.get(DATA_WAIT, 0.0), max(0.0, rest))
    return {**before, "data": data, "first step": rest - data}


def figures_of(text: str) -> dict[str, float]:
    """Return the metrics of a worker by name, and its seconds by phase.

    Args:
        text: In Prometheus' text format.
    """
    return {
        sample.labels.get("phase", sample.name)
        if sample.name == "imagenet_train_seconds_total"
        else sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the medians of each part as Markdown, with the median of the sums.

    Args:
        found: Strategy → the seconds of each part, of each round.
    """
    lines = [
        f"| strategy | {' | '.join(PARTS)} | kill to next step |",
        f"|---|{'--:|' * (len(PARTS) + 1)}",
    ]
    for strategy, runs in found.items():
        cells = [median(run[part] for run in runs) for part in PARTS]
        whole = median(sum(run.values()) for run in runs)
        lines.append(f"| {strategy} | {' | '.join(f'{cell:.2f}' for cell in (*cells, whole))} |")
    return "\n".join(lines)


def replace(page: Path, name: str, text: str) -> None:
    """Replace what a page has between the two marks of a name.

    Raises:
        ValueError: The page lacks one of them.
    """
    begin, end = (f"<!-- {name}: {word} -->\n" for word in ("begin", "end"))
    before, is_begun, rest = page.read_text().partition(begin)
    _, has_end, after = rest.partition(end)
    if not (is_begun and has_end):
        raise ValueError(f"{page} lacks {begin.strip()} and {end.strip()}")
    page.write_text(f"{before}{begin}{text}\n{end}{after}")
