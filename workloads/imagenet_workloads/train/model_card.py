"""The model card: what a model is, what it was trained on, how well it does, how to verify it.

Rank 0 writes model-card.json and model-card.md beside the model, before result.json. The Markdown
is made from the JSON alone. Names of classes and texts come from others: in the Markdown they stay
in their table cell, and are neither markup nor links.
"""

import json
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagenet_spec.evaluation import Evaluation, accuracy_by_class, confusions
from imagenet_spec.events import Run
from imagenet_spec.metrics import TimePhase
from imagenet_spec.names import MODEL_CARD_DATA_FILE, MODEL_CARD_FILE, TRAIN_PROGRAM
from imagenet_workloads import files
from imagenet_workloads.data.worker_data import Data

VERSION = 1

# In the JSON all classes have their accuracy.
MARKDOWN_CLASSES = 20
MOST_CONFUSIONS = 20

VERIFY = "imagenet-verify ."
"""The command that trains some steps again and compares every byte; in the model's folder."""


@dataclass(frozen=True)
class Origin:
    """What a card says that neither result.json nor evaluation.json has.

    `license` is that of the images; `arguments` those of `imagenet-train`; `runs` those of all
    attempts, in their order.
    """

    license: str | None = None
    arguments: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[Run] = ()


def model_card(
    result: Mapping[str, Any], evaluation: Evaluation | None, data: Data, origin: Origin
) -> dict[str, Any]:
    """Make the content of model-card.json, from that of result.json and of evaluation.json."""
    phases = result["time"]["phases"]
    # Above zero: the process has started.
    seconds = sum(phases.values())
    dataset = data.dataset
    return {
        "version": VERSION,
        **{name: result[name] for name in ("job", "framework", "strategy", "network", "model")},
        "data": {
            "key": data.key,
            "source": None if dataset is None else dataset.decision.get("said"),
            "license": origin.license,
            "preparation": None
            if dataset is None
            else {
                "version": dataset.writer.version,
                "codec": dataset.writer.codec,
                "options": dict(dataset.options),
            },
            "classes": data.class_count,
            "images": {
                "train": data.training.images,
                "validation": 0 if data.validation is None else data.validation.images,
            },
        },
        "options": [_without_login(argument) for argument in origin.arguments],
        "versions": dict(origin.versions),
        "validation": result["validation"],
        **_accuracy(evaluation),
        "training": {
            **{name: result[name] for name in ("epochs", "plannedEpochs", "best", "earlyStop")},
            "workers": result["workers"],
            "completedAt": result["completedAt"],
            "attempts": [
                {
                    "attempt": run.start[1].attempt,
                    "startedAt": f"{datetime.fromtimestamp(run.start[0], UTC):%Y-%m-%dT%H:%M:%SZ}",
                    "seconds": round(run.end - run.start[0], 3),
                    "workers": run.start[1].workers,
                    "epoch": run.start[1].epoch,
                    "batch": run.start[1].batch,
                }
                for run in origin.runs
            ],
            "restarts": max(len(origin.runs) - 1, 0),
            "lastAttempt": {
                "seconds": round(seconds, 3),
                "phases": dict(phases),
                "goodput": round(phases.get(TimePhase.STEPPING, 0) / seconds, 4),
            },
        },
        "verify": VERIFY,
    }


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write both files, the JSON last; StorageError if that fails."""
    shown, data = to_markdown(card), json.dumps(card, indent=2) + "\n"
    files.write_output(folder / MODEL_CARD_FILE, lambda path: path.write_bytes(shown.encode()))
    files.write_output(folder / MODEL_CARD_DATA_FILE, lambda path: path.write_text(data))


def to_markdown(card: Mapping[str, Any]) -> str:
    """Make the content of model-card.md from that of model-card.json."""
    data, training, validation = card["data"], card["training"], card["validation"]
    last, images = training["lastAttempt"], data["images"]
    best, stop = training["best"], training["earlyStop"]
    facts = [("Framework", card["framework"]), ("Strategy", card["strategy"])]
    facts += [("Network", card["network"]), ("Files", ", ".join(card["model"].values()))]
    if validation is not None:
        facts += [("Top-1 accuracy", _percent(validation["top1"]))]
        facts += [("Top-5 accuracy", _percent(validation["top5"]))]
    parts = [
        f"# Model card: {inert(card['job'])}",
        _table(("", ""), facts),
        "## Data",
        _table(
            ("", ""),
            [
                ("Key", data["key"] or "none"),
                ("Source", data["source"] or "not recorded"),
                ("Licence", data["license"] or "not given"),
                ("Classes", data["classes"]),
                ("Training images", images["train"]),
                ("Validation images", images["validation"]),
            ],
        ),
    ]
    by_class = [one for one in card["accuracyByClass"] if one["images"]]
    if by_class:
        worst = sorted(by_class, key=lambda one: one["accuracy"])[:MARKDOWN_CLASSES]
        rows = [
            (_name(one), one["images"], one["right"], _percent(one["accuracy"])) for one in worst
        ]
        which = "" if len(worst) == len(by_class) else f": the lowest {len(worst)}"
        parts += [
            f"## Accuracy by class{which}",
            _table(("Class", "Validation images", "Right", "Accuracy"), rows),
        ]
    if card["confusions"]:
        pairs = [
            (_name(one["label"]), _name(one["prediction"]), one["images"])
            for one in card["confusions"]
        ]
        parts += ["## Most confused classes", _table(("Class", "Predicted as", "Images"), pairs)]
    parts += [
        "## Training",
        _table(
            ("", ""),
            [
                ("Epochs", training["epochs"]),
                *([] if best is None else [("Epoch of the model", best["epoch"])]),
                *([] if stop is None else [("Stopped early by validation", stop["metric"])]),
                ("Workers of the last attempt", training["workers"]),
                ("Restarts", training["restarts"]),
                ("Completed at", training["completedAt"]),
                ("Goodput of the last attempt", _percent(last["goodput"])),
            ],
        ),
        _table(
            ("Attempt", "Start", "Seconds", "Workers", "From epoch", "Batch"),
            [
                (
                    one["attempt"],
                    one["startedAt"],
                    f"{one['seconds']:.0f}",
                    one["workers"],
                    one["epoch"] + 1,
                    one["batch"],
                )
                for one in training["attempts"]
            ],
        ),
        "Time of the last attempt by phase:",
        _table(
            ("Phase", "Seconds"),
            [(phase, f"{spent:.1f}") for phase, spent in last["phases"].items() if spent],
        ),
        f"The options of `{TRAIN_PROGRAM}`:",
        _code(shlex.join(card["options"])),
        "## Versions",
        _table(("", ""), card["versions"].items()),
        "## Verification",
        "In the folder of this card, with the dataset in its place, this command trains some steps "
        "again and compares every byte:",
        _code(card["verify"]),
    ]
    return "\n\n".join(parts) + "\n"


# Markup of CommonMark, GitHub's tables, links, mentions and formulas.
_MARKUP = re.compile(r"[\\`*_{}\[\]#!~$@^]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}


def inert(text: str) -> str:
    """Return a text as Markdown that shows it, in one line and in one table cell.

    Characters that cannot be seen, such as controls and marks of direction, are shown as ⟨U+…⟩.
    """
    shown = "".join(_visible(character) for character in text)
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", shown)
    return "".join(_ENTITIES.get(character, character) for character in escaped)


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    # These two join letters of some scripts.
    is_hidden = category in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
    if is_hidden and character not in "\u200c\u200d":
        return f"⟨U+{ord(character):04X}⟩"
    return character


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([inert(str(cell)) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    """Make a block of code of one line, which nothing in the text ends."""
    return "    " + "".join(map(_visible, text))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['words']} ({one['class']})" if one["words"] else one["class"]


def _accuracy(evaluation: Evaluation | None) -> dict[str, Any]:
    if evaluation is None:
        return {"accuracyByClass": [], "confusions": []}

    def named(label: int) -> dict[str, str]:
        return {"class": evaluation.classes[label], "words": evaluation.words[label]}

    return {
        "accuracyByClass": [
            {
                **named(one.label),
                "images": one.images,
                "right": one.right,
                "accuracy": one.accuracy,
            }
            for one in accuracy_by_class(evaluation)
        ],
        "confusions": [
            {
                "label": named(one.label),
                "prediction": named(one.prediction),
                "images": one.images,
            }
            for one in confusions(evaluation)[:MOST_CONFUSIONS]
        ],
    }


def _without_login(argument: str) -> str:
    """Leave out the user, the password and the query of a URL."""
    return re.sub(r"://(?:[^/?\s]*@)?([^?\s]*)(?:\?\S*)?", r"://\1", argument)
