"""Write the files that are generated from the models: CRD, admission policy, docs/reference.md.

    python -m imagenet_operator.cli.generate           # make generate
    python -m imagenet_operator.cli.generate --check   # make verify

Not a command of `imagenetctl`: it runs in a checkout of this repository, from its root.

Exit codes: 0 written, or no difference; 1 a file differs from its models.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from imagenet_operator.api import Manifest, admission, crd, reference
from imagenet_operator.cli.files import Dumper

CRD = Path("charts/imagenet-operator/files/imagenetjobs.yaml")
POLICY = Path("charts/imagenet-operator/files/admission-policy.yaml")
REFERENCE = Path("docs/reference.md")

_HEADER = "# Written by `make generate` from operator/imagenet_operator/api; change it there.\n"


def contents() -> dict[Path, str]:
    """Return every generated file, by its path from the repository's root."""
    return {
        CRD: _yaml(crd.definition()),
        POLICY: _yaml({"spec": admission.policy()}),
        REFERENCE: reference.render(),
    }


def _yaml(document: Manifest) -> str:
    return _HEADER + yaml.dump(
        document, Dumper=Dumper, sort_keys=False, width=100, allow_unicode=True
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with ``--check`` say which differ; return the exit code."""
    parser = argparse.ArgumentParser(prog="imagenet_operator.cli.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument(
        "--root", type=Path, default=Path(), help="the repository (default: this folder)"
    )
    options = parser.parse_args(arguments)
    different = [
        (options.root / path, text)
        for path, text in contents().items()
        if not (
            (options.root / path).is_file()
            and (options.root / path).read_text(encoding="utf-8") == text
        )
    ]
    for path, text in different:
        if options.check:
            print(f"{path}: differs from its models; run make generate")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{path}: written")
    return 1 if options.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
