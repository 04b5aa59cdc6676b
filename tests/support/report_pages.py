"""Working directories with a finished job, as its page reads them: of shapes, or of any names.

The events, dataset.json, evaluation.json and thumbnails are those of a training whose values follow
from its epoch, so that a test knows each of them.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from imagenet_spec import evaluation as evaluations
from imagenet_spec import events
from imagenet_spec.evaluation import CERTAIN, Evaluation, ShownImage
from imagenet_spec.names import EVALUATION_FILE, EVENTS_FILE, THUMBNAILS_FOLDER, attempt_folder
from support import job_table

KEY = "68271b37b1359ef8c60a9fbaed1bb486"
START = 1_767_323_045.0  # 2026-01-02T03:04:05Z
SECONDS = 360.0
"""Of an epoch."""
BATCHES = 20
SHAPES = ("circle", "cross", "ring", "square", "star", "triangle")
TAG = "</script><img src=x onerror=window.broken=1>"
TURNED = "\u202egnp.\u2066txt"
HOSTILE = (
    TAG,
    TURNED,
    "two\nlines\r\n\ttab",
    "'\"&amp;--><!--",
    "\ud800\x00\x7f",
    "עברית",
    "x" * 999,
)
"""Names that a folder or an archive may bring: markup, turned writing, lines, lone surrogates."""


@dataclass(frozen=True)
class FinishedJob:
    """What a job trained.

    Attributes:
        restarts: Each repeats so many `redone` epochs.
        per_class: Validation images of each class.
        file_name: Of an image, with the places for its class and its number.
        planted: The index of the validation image with a wrong label.
        edge: Pixels of a thumbnail.
    """

    name: str = "shapes"
    classes: Sequence[str] = SHAPES
    words: dict[str, str] = field(default_factory=dict)
    epochs: int = 12
    restarts: int = 2
    redone: int = 1
    per_class: int = 20
    file_name: str = "{0}/photo_{1:03}.jpg"
    planted: int = 7
    edge: int = 160


def top1(epoch: int, restart: int = 0) -> float:
    """The validation accuracy after an epoch, from 0, in an attempt."""
    return round(0.9 - 0.75 * math.exp(-(epoch + 1) / 3) - 0.003 * restart, 6)


def write(workdir: Path, job: FinishedJob = FinishedJob()) -> Path:
    """Write the job into a working directory; return the folder of its model."""
    manifest = job_table.manifest(
        name=job.name,
        training={"epochs": job.epochs, "workers": {"replicas": 2, "gpus": 4}},
    )
    manifest["metadata"]["creationTimestamp"] = _time(START - 900)
    manifest["status"] = _status(job)
    folder = workdir / "jobs" / job.name
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"job": manifest}))
    volume = workdir / "volumes" / f"{job.name}-dataset"
    dataset = volume / "datasets" / KEY
    dataset.mkdir(parents=True)
    (dataset / "dataset.json").write_text(json.dumps(_dataset(job)))
    damaged = {"name": f"{job.classes[0]}/half.jpg", "class": job.classes[0], "reason": "truncated"}
    (dataset / "skipped.jsonl").write_text(json.dumps(damaged) + "\n")
    results = volume / "jobs" / f"{job.name}-{job_table.UID[:8]}"
    _write_events(results, job)
    model = results / attempt_folder(job.restarts)
    (model / "result.json").write_text(json.dumps({"job": job.name, "model": {"params": "p"}}))
    evaluation = evaluate(job)
    (model / EVALUATION_FILE).write_text(evaluations.to_json(evaluation))
    thumbnails = model / THUMBNAILS_FOLDER
    thumbnails.mkdir()
    for image in (*evaluation.samples, *evaluation.mistakes, *evaluation.suspects):
        shown = evaluation.labels[image.index]
        if image.index == job.planted:
            shown = evaluation.predictions[image.index]
        assert image.thumbnail is not None
        picture = jpeg(shown, image.index, job.edge)
        (thumbnails / image.thumbnail).write_bytes(picture)
    return model


def evaluate(job: FinishedJob) -> Evaluation:
    """Return the evaluation of a model that is unsure of a few images, and sure of the planted one.

    The planted image has the label of another class than the one that it shows.
    """
    count = len(job.classes)
    labels = [label for label in range(count) for _ in range(job.per_class)]
    predictions = list(labels)
    own, best = ([0.9] * len(labels) for _ in range(2))
    for index in range(3, len(labels), 9):
        predictions[index] = (labels[index] + 1 + index % 2) % count
        own[index], best[index] = 0.2 + 0.01 * (index % 7), 0.55 + 0.01 * (index % 5)
        if index % 36 == 3:
            own[index], best[index] = 0.01 + 0.001 * (index % 7), 0.96
    predictions[job.planted] = (labels[job.planted] + 2) % count
    own[job.planted], best[job.planted] = 0.001, 0.998
    evaluation = Evaluation(
        job=job.name,
        epoch=job.epochs,
        classes=job.classes,
        words=[job.words.get(name, "") for name in job.classes],
        labels=labels,
        predictions=predictions,
        label_probabilities=[round(one * CERTAIN) for one in own],
        prediction_probabilities=[round(one * CERTAIN) for one in best],
    )

    def shown(indices: Sequence[int], most: int) -> list[ShownImage]:
        return [
            ShownImage(
                index,
                job.file_name.format(job.classes[labels[index]], index % job.per_class),
                f"{index:08}.jpg",
            )
            for index in indices[:most]
        ]

    fields = vars(evaluation) | {
        "mistakes": shown(evaluations.find_mistakes(evaluation), evaluations.MISTAKES),
        "suspects": shown(evaluations.find_suspects(evaluation), evaluations.SUSPECTS),
        "samples": shown(evaluations.find_samples(evaluation), evaluations.SAMPLES),
    }
    return Evaluation(**fields)


def jpeg(shape: int, seed: int, edge: int = 160) -> bytes:
    """A JPEG file with one of six shapes, on a ground of other colours."""
    random = np.random.default_rng(seed)
    ground = random.integers(150, 256, (3, 3, 3), dtype=np.uint8)
    image: npt.NDArray[Any] = cv2.resize(ground, (edge, edge), interpolation=cv2.INTER_CUBIC)
    colour = [int(one) for one in random.integers(0, 140, 3)]
    size = edge * random.uniform(0.24, 0.36)
    middle = edge / 2 + random.uniform(-edge / 10, edge / 10, 2)
    turn = random.uniform(-0.3, 0.3)
    kind = SHAPES[shape % len(SHAPES)]
    centre = (round(middle[0]), round(middle[1]))
    if kind in ("circle", "ring"):
        thickness = -1 if kind == "circle" else round(size / 3)
        cv2.circle(image, centre, round(size), colour, thickness, cv2.LINE_AA)
    else:
        corners, lengths = {
            "triangle": (3, (1.0,)),
            "square": (4, (1.0,)),
            "star": (10, (1.1, 0.45)),
            "cross": (12, (1.0, 1.0, 0.4)),
        }[kind]
        turns = [turn + 2 * math.pi * one / corners for one in range(corners)]
        points = [
            middle + size * lengths[one % len(lengths)] * np.array([math.sin(at), -math.cos(at)])
            for one, at in enumerate(turns)
        ]
        outline = np.array([points]).round().astype(np.int32)
        cv2.fillPoly(image, list(outline), colour, cv2.LINE_AA)
    encoded: bytes = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
    return encoded


def with_segments(picture: bytes, *segments: tuple[int, bytes]) -> bytes:
    """Return a JPEG file with segments after its start: their codes and contents."""
    inserted = b"".join(
        bytes((0xFF, code)) + (len(content) + 2).to_bytes(2, "big") + content
        for code, content in segments
    )
    return picture[:2] + inserted + picture[2:]


def _write_events(results: Path, job: FinishedJob) -> None:
    now = START
    for attempt in range(job.restarts + 1):
        first = attempt * job.epochs // (job.restarts + 1)
        last = (attempt + 1) * job.epochs // (job.restarts + 1)
        # What a restart trains again.
        last = min(job.epochs, last + (job.redone if attempt < job.restarts else 0))
        resumed = f"epoch-{first:04}-batch-00000000" if attempt else None
        found: list[tuple[float, events.Event]] = [
            (now, events.Started(attempt, 2, first, 0, resumed, BATCHES, "t"))
        ]
        for epoch in range(first, last):
            for batch in range(4, BATCHES + 1, 4):
                share = (epoch + batch / BATCHES) / job.epochs
                speed = 2400.0 + 90 * math.sin(epoch + batch)
                loss = 6.9 * math.exp(-2.2 * share)
                so_far = top1(epoch, attempt) - 0.1 * (1 - batch / BATCHES)
                within = events.Progress(epoch, batch, speed, loss, so_far, None, 0.1)
                found.append((now + SECONDS * batch / BATCHES, within))
            now += SECONDS
            accuracy = top1(epoch, attempt)
            speed = 4800.0 + 40 * math.sin(epoch)
            loss = 6.9 * math.exp(-2.2 * (epoch + 1) / job.epochs)
            found.append(
                (now, events.EpochFinished(epoch, SECONDS, speed, loss, accuracy + 0.02, 0.97))
            )
            now += 20
            validated = events.Validated(
                epoch, len(job.classes) * job.per_class, accuracy, accuracy + 0.04, loss + 0.1
            )
            found.append((now, validated))
        folder = results / attempt_folder(attempt)
        folder.mkdir(parents=True)
        lines = [events.to_line(event, time) + "\n" for time, event in found]
        (folder / EVENTS_FILE).write_text("".join(lines))
        now += 240


def _status(job: FinishedJob) -> dict[str, Any]:
    count = len(job.classes)
    again = job.restarts * job.redone
    stepping = SECONDS * job.epochs * 0.9
    phases = {
        "queueing": 120.0,
        "preparing": 780.0,
        "starting": 40.0,
        "data": SECONDS * job.epochs * 0.1,
        "stepping": stepping,
        "redone": SECONDS * again,
        "evaluating": 20.0 * (job.epochs + again),
        "restarting": 240.0 * job.restarts,
    }
    whole = sum(phases.values())
    ended = _time(START - 900 + whole)
    members = [
        {
            "name": f"{job.name}-r{job.restarts}-{role}-{index}",
            "role": role,
            "phase": "Succeeded",
            "exitCode": 0,
            "node": f"node-{index + 1}",
            "startedAt": _time(START),
            "finishedAt": ended,
        }
        for role in ("server", "worker")
        for index in range(2)
    ]
    return {
        "phase": "Succeeded",
        "reason": "Completed",
        "startTime": _time(START - 900),
        "completionTime": ended,
        "restarts": job.restarts,
        "conditions": [
            {
                "type": "Succeeded",
                "status": "True",
                "reason": "Completed",
                "message": f"all workers of attempt {job.restarts} exited with 0",
                "lastTransitionTime": ended,
            }
        ],
        "dataset": {
            "key": KEY,
            "classes": count,
            "images": {"train": 1000 * count, "validation": job.per_class * count},
            "shards": 8,
            "droppedClasses": 1,
            "skippedImages": 1,
            "passedOver": {".txt": 3},
            "decision": {"said": "classFolders: classes are the folders at level 1"},
            "sealed": True,
        },
        "training": {
            "attempt": job.restarts,
            "finishedEpochs": f"{job.epochs}/{job.epochs}",
            "members": members,
        },
        "time": {
            "phases": phases,
            "goodput": round(stepping / whole, 4),
            "gpuHours": round(8 * (whole - 1140) / 3600, 2),
            "countedUntil": ended,
        },
    }


def _dataset(job: FinishedJob) -> dict[str, Any]:
    count = len(job.classes)
    return {
        "version": 1,
        "key": KEY,
        "format": "RecordIO",
        "writer": {"version": "3", "codec": "opencv"},
        "options": {"quality": 90, "resize": 256, "seed": 0},
        "classes": list(job.classes),
        "classWords": job.words,
        "droppedClasses": {"hexagon": 12},
        "splits": {
            "train": {"images": 1000 * count, "perClass": [1000] * count},
            "validation": {"images": job.per_class * count, "perClass": [job.per_class] * count},
        },
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
