"""Record what kubectl makes of each patch in merge_corpus.yaml, into merge_expected.json.

A case's recording is the changed fields of the pod template, or null where kubectl refuses.

Needs kubectl, but no cluster. The committed recording is what the tests compare with; run this
after adding a case, or to see whether another kubectl merges differently.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "merge_corpus.yaml"
EXPECTED = FOLDER / "merge_expected.json"


def merged_by_kubectl(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any] | None:
    """Return the pod template that kubectl makes, or None where it refuses the patch."""
    document = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "case"},
        "template": base,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        command = ["kubectl", "patch", "--local", "--type=strategic", "-f", file.name, "-o", "json"]
        answer = subprocess.run(
            [*command, "-p", json.dumps({"template": patch})],
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode:
        print(f"  refused: {answer.stderr.strip().splitlines()[0]}")
        return None
    template: dict[str, Any] = json.loads(answer.stdout)["template"]
    return template


def changed_fields(base: dict[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of metadata and spec that changed; null for one that went."""
    changes: dict[str, Any] = {}
    for part in ("metadata", "spec"):
        before, after = base[part], merged.get(part, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                changes.setdefault(part, {})[name] = after.get(name)
    return changes


def main() -> None:
    corpus = yaml.safe_load(CORPUS.read_text())
    lines = []
    for name, patch in corpus["cases"].items():
        print(name)
        merged = merged_by_kubectl(corpus["base"], patch)
        changes = None if merged is None else changed_fields(corpus["base"], merged)
        lines.append(f"{json.dumps(name)}: {json.dumps(changes, sort_keys=True)}")
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
