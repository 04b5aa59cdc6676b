"""The model card: its content, and that names from elsewhere stay in their cells."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from imagenet_spec.evaluation import CERTAIN, Evaluation
from imagenet_spec.events import Run, Started
from imagenet_workloads.data.inputs import plain_inputs
from imagenet_workloads.data.worker_data import Data
from imagenet_workloads.dataset import Dataset, Split, WriterVersion
from imagenet_workloads.train.model_card import (
    MARKDOWN_CLASSES,
    MOST_CONFUSIONS,
    Origin,
    inert,
    model_card,
    to_markdown,
    write_card,
)
from support.framework_doubles import Images, Zeros

CLASSES = ("n01440764", "n02102040", "n03394916")
KEY = "0123abcd"

RESULT = {
    "job": "flowers",
    "framework": "PyTorch",
    "strategy": "single",
    "network": "resnet",
    "epochs": 3,
    "plannedEpochs": 9,
    "best": {"metric": "loss", "epoch": 2, "value": 0.5},
    "earlyStop": {"metric": "loss", "epoch": 2, "value": 0.5},
    "workers": 2,
    "validation": {"images": 10, "top1": 0.7, "top5": 1.0, "loss": 0.5},
    "model": {"weights": "model-0003.safetensors"},
    "completedAt": "2026-11-29T12:00:00Z",
    "time": {"seconds": 40, "phases": {"starting": 10.0, "stepping": 30.0, "redone": 0.0}},
}

DATASET = Dataset(
    KEY,
    WriterVersion("0.2.0", "planes"),
    {"resize": 256},
    CLASSES,
    Split(95, ()),
    Split(10, ()),
    (0.0, 0.0, 0.0),
    (1.0, 1.0, 1.0),
    decision={"said": "class folders of flowers.tar"},
)

ORIGIN = Origin(
    "CC BY 4.0",
    ["--dataset-url", "https://reader:pass@example.com/flowers?token=secret", "--lr", "0.1"],
    {"imagenet-workloads": "0.2.0", "PyTorch": "2.9.0", "CUDA": "12.8"},
    [
        Run((0.0, Started(0, 2, 0, 0)), 100.0),
        Run((160.0, Started(1, 2, 1, 5, "attempts/r0/checkpoints/…")), 200.0),
    ],
)


def data(classes: tuple[str, ...] = CLASSES, dataset: Dataset | None = DATASET) -> Data:
    return Data(
        Images(), Zeros(), plain_inputs((3, 28, 28)), classes, len(classes), KEY, dataset=dataset
    )


def evaluation(
    pairs: list[tuple[int, int]], classes: tuple[str, ...] = CLASSES, words: tuple[str, ...] = ()
) -> Evaluation:
    labels, predictions = zip(*pairs, strict=True)
    half = [CERTAIN // 2] * len(pairs)
    return Evaluation(
        "flowers", 3, classes, words or ("",) * len(classes), labels, predictions, half, half
    )


SOME = evaluation(
    [*[(0, 0)] * 4, *[(0, 2)] * 1, *[(1, 1)] * 3, *[(1, 0)] * 2],
    words=("tench", "English springer", ""),
)


def tables(markdown: str) -> list[list[list[str]]]:
    """Return the tables of a page as CommonMark with GitHub's tables: rows of texts."""
    found: list[list[list[str]]] = []
    for token in parsed(markdown):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and found and found[-1] and token.level > 3:
            found[-1][-1].append("".join(part.content for part in token.children or ()))
    return found


def parsed(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)


def rows(markdown: str) -> dict[str, str]:
    """Return the rows of all tables with two columns."""
    return {row[0]: row[1] for table in tables(markdown) for row in table if len(row) == 2}


def test_the_card_says_what_the_model_is() -> None:
    card = model_card(RESULT, SOME, data(), ORIGIN)
    assert card["data"] == {
        "key": KEY,
        "source": "class folders of flowers.tar",
        "license": "CC BY 4.0",
        "preparation": {"version": "0.2.0", "codec": "planes", "options": {"resize": 256}},
        "classes": 3,
        "images": {"train": 95, "validation": 10},
    }
    assert card["versions"] == ORIGIN.versions
    assert [(one["class"], one["right"], one["accuracy"]) for one in card["accuracyByClass"]] == [
        ("n01440764", 4, 0.8),
        ("n02102040", 3, 0.6),
        ("n03394916", 0, None),
    ]
    assert [
        (one["label"]["words"], one["prediction"]["class"], one["images"])
        for one in card["confusions"]
    ] == [("English springer", "n01440764", 2), ("tench", "n03394916", 1)]
    training = card["training"]
    assert (training["restarts"], training["epochs"]) == (1, 3)
    assert [one["seconds"] for one in training["attempts"]] == [100, 40]
    assert training["attempts"][1]["startedAt"] == "1970-01-01T00:02:40Z"
    assert training["lastAttempt"]["goodput"] == 0.75


def test_the_markdown_says_the_same() -> None:
    markdown = to_markdown(model_card(RESULT, SOME, data(), ORIGIN))
    found = rows(markdown)
    assert found["Licence"] == "CC BY 4.0"
    assert found["Key"] == KEY
    assert found["Top-1 accuracy"] == "70.00 %"
    assert found["Restarts"] == "1"
    assert (found["Epochs"], found["Epoch of the model"]) == ("3", "2")
    assert found["Stopped early by validation"] == "loss"
    assert found["PyTorch"] == "2.9.0"
    by_class, pairs = (
        table for table in tables(markdown) if table[0][0] == "Class" and table[0][0]
    )
    assert by_class[1:] == [
        ["English springer (n02102040)", "5", "3", "60.00 %"],
        ["tench (n01440764)", "5", "4", "80.00 %"],
    ]
    assert pairs[1] == ["English springer (n02102040)", "tench (n01440764)", "2"]
    blocks = [token.content.strip() for token in parsed(markdown) if token.type == "code_block"]
    assert shlex.split(blocks[0]) == ["--dataset-url", "https://example.com/flowers", "--lr", "0.1"]
    assert blocks[1] == "imagenet-verify ."


@pytest.mark.parametrize("what", ["pass", "secret", "reader"])
def test_a_login_in_an_address_is_left_out(what: str) -> None:
    card = model_card(RESULT, SOME, data(), ORIGIN)
    assert what not in json.dumps(card["options"])


def test_without_a_dataset_and_validation_it_says_so() -> None:
    plain = replace(data(dataset=None), validation=None, key=None)
    nothing = dict.fromkeys(("validation", "best", "earlyStop"))
    card = model_card({**RESULT, **nothing}, None, plain, Origin())
    assert card["accuracyByClass"] == card["confusions"] == []
    found = rows(to_markdown(card))
    assert (found["Key"], found["Source"], found["Licence"]) == (
        "none",
        "not recorded",
        "not given",
    )
    assert found["Validation images"] == "0"
    assert found.keys().isdisjoint({"Top-1 accuracy", "Epoch of the model"})


def test_markdown_has_the_worst_classes_and_json_all() -> None:
    classes = tuple(f"class {number}" for number in range(50))
    pairs = [(label, label if label % 2 else 0) for label in range(50)]
    card = model_card(RESULT, evaluation(pairs, classes), data(classes), ORIGIN)
    assert len(card["accuracyByClass"]) == 50
    assert len(card["confusions"]) == MOST_CONFUSIONS
    markdown = to_markdown(card)
    (by_class,) = (table for table in tables(markdown) if table[0][-1] == "Accuracy")
    assert len(by_class) == 1 + MARKDOWN_CLASSES
    assert "the lowest 20" in markdown


HOSTILE = [
    "a | b",
    "a \\| b",
    "a\nb | c",
    "a\r\n\r\n# heading",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "` | `",
    "```",
    "[link](javascript:alert(1))",
    "![image](https://example.com/x.png)",
    "https://example.com and www.example.com",
    "<https://example.com>",
    "&lt;b&gt; &#124;",
    "*a* __b__ ~~c~~ $d$",
    "\u202egnp.exe",
    "\u2066a\u2069\u200f",
    "zero\x00 escape\x1b[31m delete\x7f",
    "line\u2028separator",
    "surrogate \udcff",
    "| --- | --- |",
    "---",
    "[1]: https://example.com",
    "تفاحة",
    "👩\u200d🔬",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_its_cell(tmp_path: Path, name: str) -> None:
    classes = (name, "plain")
    given = replace(data(classes), dataset=replace(DATASET, decision={"said": name}))
    card = model_card(
        {**RESULT, "job": name},
        evaluation([(0, 1), (0, 0), (1, 0)], classes, (name, "")),
        given,
        replace(ORIGIN, license=name, arguments=["--dataset-license", name]),
    )
    write_card(tmp_path, card)
    assert json.loads((tmp_path / "model-card.json").read_text())["data"]["license"] == name
    markdown = (tmp_path / "model-card.md").read_text()
    tokens = parsed(markdown)
    # The page of a harmless name has the same structure.
    plain = (tmp_path / "model-card.md").read_text()
    harmless = json.loads(json.dumps(card).replace(json.dumps(name)[1:-1], "harmless"))
    plain = to_markdown(harmless)
    assert [token.type for token in tokens] == [token.type for token in parsed(plain)]
    inline = [part.type for token in tokens for part in token.children or ()]
    assert set(inline) <= {"text", "text_special", "code_inline"}
    assert inline.count("code_inline") == 1, "the name of the program"
    assert rows(markdown)["Licence"] == shown(name)
    assert len({len(line.split("|")) for line in markdown.splitlines() if "plain" in line}) == 2


def shown(name: str) -> str:
    """Return what a cell shows of a name: what cannot be seen has its number."""
    hidden = {"\n", "\r", "\x00", "\x1b", "\x7f", "\u202e", "\u2066", "\u2069", "\u200f"}
    hidden |= {"\u2028", "\udcff"}
    return "".join(f"⟨U+{ord(one):04X}⟩" if one in hidden else one for one in name)


def test_addresses_are_no_links_on_github() -> None:
    """It makes links of plain addresses, which the parser here does not."""
    assert inert("https://example.com, HTTP://EXAMPLE.COM") == (
        "https\\://example.com, HTTP\\://EXAMPLE.COM"
    )
    assert inert("www.example.com WWW.example.com") == "www\\.example.com WWW\\.example.com"
    assert inert("St. Bernard: 2:1") == "St. Bernard: 2:1"
