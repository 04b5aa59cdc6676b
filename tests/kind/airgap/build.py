"""Build what a cluster without an image registry is made of: the one entry point of this folder.

    python tests/kind/airgap/build.py            # everything that a cluster needs
    python tests/kind/airgap/build.py kwok       # one part, printing where it lies
    python tests/kind/airgap/build.py --into build/tools/bin helm

Programs end up as folders in the cache, named by their keys; images in the Docker engine, tagged
with theirs. Existing parts are not built again. Builds are one at a time.
"""

from __future__ import annotations

import argparse
import configparser
import fcntl
import io
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Also a program to be started by path, before anything is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kind.airgap.parts import AIRGAP, Part, keys_of, parts_of, read_versions, with_needs

DEFAULT = ("kind", "helm", "kubernetes", "python", "node")
# Where Debian, and Docker's official Python image, keep the certificate authorities.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Marks every image that is built here.
LABEL = "imagenetjob.test/part"


def cache_folder() -> Path:
    """Return the folder that outlives a run."""
    named = os.environ.get("IMAGENET_KIND_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "imagenetjob-kind"


def image_name(part: Part, key: str) -> str:
    """Return the tag under which the Docker engine keeps a part."""
    return f"imagenetjob.test/{part.name}:{key}"


def pip_configuration() -> bytes:
    """Return pip's settings on this machine, from wherever they come, as one configuration file.

    Settings that name a folder of this machine mean nothing in an image, except the certificate
    authorities, which are copied to where the setting then points.
    """
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    settings = configparser.RawConfigParser()
    settings.add_section("global")
    settings.set("global", "cert", str(CERTIFICATES))
    for line in listed.stdout.splitlines():
        name, _, quoted = line.partition("=")
        section, _, option = name.rpartition(".")
        value = quoted.strip("'\"")
        if section in ("global", "install", ":env:") and not value.startswith("/"):
            settings.set("global", option, value)
    written = io.StringIO()
    settings.write(written)
    return written.getvalue().encode()


def machine_files() -> dict[str, bytes]:
    """Return this machine's own files that go into images, by the name recipes know them by."""
    named = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    certificates = Path(named) if named else CERTIFICATES
    return {"CERTIFICATES": certificates.read_bytes(), "PIP_CONFIGURATION": pip_configuration()}


def build(names: Iterable[str] = DEFAULT) -> dict[str, str]:
    """Build the named parts and what they are made from, where missing.

    Returns:
        For each part its folder, or its image's name.
    """
    ordered = with_needs(names, parts_of(read_versions()))
    wanted = {name for part in ordered for name in part.machine}
    machine = machine_files() if wanted else {}
    keys = keys_of(ordered, lambda path: (AIRGAP / path).read_bytes(), machine, platform.machine())
    cache = cache_folder()
    places: dict[str, str] = {}
    with _alone(cache):
        for part in ordered:
            key = keys[part.name]
            folder = cache / "programs" / f"{part.name}-{key}"
            place = image_name(part, key) if part.is_image else str(folder)
            if not (_has_image(place) if part.is_image else folder.is_dir()):
                environment = {
                    ordered_part.variable: places[ordered_part.name]
                    for ordered_part in ordered
                    if ordered_part.name in part.needs
                }
                _make(part, place, environment, machine)
            places[part.name] = place
        # What Kubernetes compiles to takes gigabytes, and of use are only the linked programs.
        if "kubernetes" in places:
            shutil.rmtree(cache / "go-build", ignore_errors=True)
    return places


def _make(
    part: Part, place: str, environment: Mapping[str, str], machine: Mapping[str, bytes]
) -> None:
    """Run a part's recipe in a scratch folder, and show the result only when it is whole."""
    started = time.monotonic()
    print(f"airgap: building {part.name}", flush=True)
    cache = cache_folder()
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{part.name}-") as name:
        scratch = Path(name)
        output = scratch / "output"
        work = scratch / "work"
        output.mkdir()
        work.mkdir()
        for file in part.machine:
            (scratch / file).write_bytes(machine[file])
        environment = {
            **os.environ,
            **part.environment,
            **environment,
            **{file: str(scratch / file) for file in part.machine},
            "AIRGAP": str(AIRGAP),
            "GOCACHE": str(cache / "go-build"),
            "OUT": str(output),
            "IMAGE": place,
            "LABEL": f"{LABEL}={part.name}",
        }
        _run_recipe(part, work, environment, scratch / "log")
        if not part.is_image:
            Path(place).parent.mkdir(exist_ok=True)
            output.rename(place)
    print(f"airgap: built {part.name} in {time.monotonic() - started:.0f} s", flush=True)


def _run_recipe(part: Part, work: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run a part's recipe; keep what it said if it fails."""
    with log.open("w") as lines:
        finished = subprocess.run(
            [str(AIRGAP / "recipes" / part.recipe)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if finished.returncode != 0:
        kept = cache_folder() / f"{part.name}.log"
        shutil.copy(log, kept)
        last = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise SystemExit(
            f"airgap: {part.recipe} could not build {part.name}; all it said is in {kept}, "
            f"at last:\n{last}"
        )


def _has_image(name: str) -> bool:
    found = subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False)
    return found.returncode == 0


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def link(programs: Path, folder: Path) -> None:
    """Link the programs of one part into another folder, but not its other files."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs.iterdir():
        if not (program.is_file() and os.access(program, os.X_OK)):
            continue
        found = folder / program.name
        found.unlink(missing_ok=True)
        found.symlink_to(program)


def main() -> None:
    """Build what the command line names, or all that a cluster needs."""
    known = parts_of(read_versions())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", nargs="*", choices=[[], *known], help="by default the cluster's")
    parser.add_argument("--into", type=Path, help="a folder in which to link the programs")
    arguments = parser.parse_args()
    for name, place in build(arguments.part or DEFAULT).items():
        print(f"{name}\t{place}")
        if arguments.into and not known[name].is_image:
            link(Path(place), arguments.into)


if __name__ == "__main__":
    main()
