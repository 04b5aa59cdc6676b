"""Lists what is in an image, as CycloneDX: the Python packages, what they bring, and Debian's.

    /sbom/bin/python sbom.py /opt/imagenet/bin/python /usr/local/bin/python > sbom.cdx.json

The build of every image runs it, in a stage of its own: the tool itself does not stay.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

Document = dict[str, Any]

_FORMAT = "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n"


def of_python(interpreter: str) -> Document:
    """Return the list of an environment's packages."""
    options = ("--output-format", "JSON", "--output-reproducible")
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *options, interpreter]
    document: Document = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
    return document


def of_wheels(packages: Path) -> list[Document]:
    """Return what an environment's packages bring of other projects (PEP 770).

    That is the charting library in imagenet_operator, for example. `packages` is the folder of the
    environment's packages.
    """
    files = sorted(packages.glob("*.dist-info/sboms/**/*.cdx.json"))
    return [part for file in files for part in json.loads(file.read_text())["components"]]


def of_debian(lines: Iterable[str]) -> list[Document]:
    """Return the installed packages of dpkg-query's lines."""
    found = []
    for status, name, version, architecture in (line.split("\t") for line in lines):
        if status.strip() == "ii":
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}"
            package = {"type": "library", "name": name, "version": version, "purl": purl}
            found.append({"bom-ref": purl, **package})
    return found


def merged(documents: Sequence[Document], more: Sequence[Document]) -> Document:
    """Return the first document with the components of all, by their references."""
    parts = [*(part for document in documents for part in document.get("components", [])), *more]
    found = {part["bom-ref"]: part for part in reversed(parts)}
    return {**documents[0], "components": [found[name] for name in sorted(found)]}


def _packages(interpreter: str) -> Path:
    command = [interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, check=True, stdout=-1, text=True).stdout.strip())


def main(interpreters: Sequence[str]) -> int:
    """Print the list of this image, of the environments of these interpreters."""
    query = ["dpkg-query", "--show", "--showformat", _FORMAT]
    has_debian = Path("/var/lib/dpkg/status").exists()
    lines = subprocess.run(query, check=True, stdout=-1, text=True).stdout if has_debian else ""
    brought = [part for name in interpreters for part in of_wheels(_packages(name))]
    more = [*brought, *of_debian(lines.splitlines())]
    found = merged([of_python(name) for name in interpreters], more)
    print(json.dumps(found, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
