"""The files that a result.json lists, compared with those beside it."""

import hashlib
import json
from pathlib import Path


def listed_files(attempt: Path) -> set[str]:
    """Return the paths that a result lists, whose lengths and checksums are right."""
    listed = json.loads((attempt / "result.json").read_text())["files"]
    for name, found in listed.items():
        content = (attempt / name).read_bytes()
        assert found == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}, name
    return set(listed)
