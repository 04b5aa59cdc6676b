"""Files are read as kubectl reads them, and what cannot be read is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from imagenet_spec.errors import UnreadableManifest
from imagenet_spec.load import load, parse
from support.sentences import says

VALUES = {
    "1e-4": 0.0001,
    "1.5e3": 1500.0,
    ".5": 0.5,
    "-7": -7,
    "0x1F": 31,
    "0o17": 15,
    "0644": 420,
    "08": 8.0,
    "1:30": "1:30",
    "2024-01-31": "2024-01-31",
    "2024-01-31T12:00:00Z": "2024-01-31T12:00:00Z",
    "true": True,
    "off": False,
    "'8'": "8",
    "1.2.3": "1.2.3",
    "10Gi": "10Gi",
    "~": None,
    "": None,
}


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_a_scalar_is_what_kubernetes_takes_it_for(text: str, value: object) -> None:
    (document,) = parse(f"key: {text}\n", "job.yaml")
    assert document == {"key": value}
    assert type(document["key"]) is type(value)


REFUSED = {
    "a: 1\na: 2\n": "line 2, column 1: the key 'a' is given twice",
    "a: {b: 1, b: 2}\n": "the key 'b' is given twice",
    "a: [1\n": "line 2",
    "a: 1e999\n": "not a finite number",
    "? [1, 2]\n: 3\n": "a key must be text",
    "a: !!python/object:os.system {}\n": "could not determine a constructor",
    "a: {b: !!binary aGk=}\n": "job.yaml: a.b: is binary data (!!binary); write",
    "a: [!!set {b}]\n": "job.yaml: a[0]: is a set (!!set); write a list",
    "a: !!timestamp 2024-01-31\n": "job.yaml: a: is a time (!!timestamp); write",
    "a: &x {b: *x}\n": "job.yaml: a.b: contains itself; write",
    "a: {b: 1e999}\n": "job.yaml: a.b: is not a finite number",
    f"a: {'9' * 5000}\n": "job.yaml: a: is not a finite number",
    f"a: -{'9' * 5000}\n": "job.yaml: a: is not a finite number",
    f"a: 0x{'f' * 5000}\n": "job.yaml: a: is not a finite number",
    f"{'9' * 500}: a\n": "job.yaml: has a key that is not text",
    "a: 1\n---\nb: [!!set {c}]\n": "job.yaml: document 2: b[0]: is a set",
    "a: !!int x\n": "line 1, column 4: is no !!int; leave the tag out",
    "a: !!float x\n": "is no !!float",
    "a: !!bool maybe\n": "is no !!bool",
    "a: !!timestamp soon\n": "is no !!timestamp",
    "a: !!timestamp 2024-13-45\n": "is no !!timestamp",
    "a: !!map [b]\n": "expected a mapping node",
    "a: !!set [b]\n": "expected a mapping node",
    "": "holds no manifest",
    "---\n---\n": "holds no manifest",
    "just words\n": "holds a text, not an object",
    "- a\n": "holds a list, not an object",
    "a:\n\tb: 1\n": "line 2, column 1: a tab cannot indent; write spaces",
    "a: \x01\n": "is not YAML",
    "[" * 1500: "too deeply nested",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_a_text_that_kubectl_would_refuse_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnreadableManifest, match=r"^job\.yaml: ") as caught:
        parse(text, "job.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [".nan", ".inf", "-.Inf"])
def test_what_json_has_no_number_for_is_text(text: str) -> None:
    assert parse(f"a: {text}\n", "job.yaml") == [{"a": text}]


def test_documents_come_in_order_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("a: 1\n---\n# nothing\n---\nb: 2\n")
    assert load(path) == [{"a": 1}, {"b": 2}]


def test_json_is_yaml() -> None:
    assert parse('{"a": [1, {"b": null}]}', "job.json") == [{"a": [1, {"b": None}]}]


def test_a_merge_key_may_be_overridden() -> None:
    text = "base: &base {a: 1}\nmore: {<<: *base, a: 2}\n"
    assert parse(text, "job.yaml") == [{"base": {"a": 1}, "more": {"a": 2}}]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(UnreadableManifest, match="no such file") as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_folder_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableManifest, match=says("is a folder", "write the path of a manifest in it")
    ):
        load(tmp_path)


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(UnreadableManifest, match="is not UTF-8"):
        load(path)
