"""Where a cluster comes from on this machine: from an image registry, or from `airgap/`.

Where a registry answers, kind's own node image and Docker's official Python image are pulled, and
kind, helm and kubectl are those on the PATH. Where none does, all of them are built once from
Debian's packages and Go modules. `$IMAGENET_KIND_ENVIRONMENT` decides where it is set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from kind.airgap import build
from kind.airgap.parts import TOOLS, read_versions

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = ("registry", "airgap")
VARIABLE = "IMAGENET_KIND_ENVIRONMENT"
# The nodes' programs are compiled together, kubectl among them.
_BUILT_WITH_NODES = {"kubectl": "kubernetes"}


@dataclass(frozen=True)
class Environment:
    """What a cluster is made with.

    Attributes:
        name: One of ENVIRONMENTS.
        programs: Paths of kind, helm and kubectl.
        configuration: Path of kind's file.
        node_image: The nodes' image; none is kind's own.
        build_options: The options of `docker build` on this machine.
    """

    name: str
    programs: Mapping[str, str]
    configuration: str
    node_image: str | None = None
    build_options: str = ""

    def to_json(self) -> str:
        """Return it for another process."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Environment:
        """Return what another process wrote down."""
        return cls(**json.loads(text))


def choose(named: str | None, registry_answers: Callable[[], bool]) -> str:
    """Return the name of the environment: the one that is asked for, else the one that works."""
    if named:
        if named not in ENVIRONMENTS:
            raise SystemExit(f"{VARIABLE} is {named!r}; write one of {', '.join(ENVIRONMENTS)}")
        return named
    return "registry" if registry_answers() else "airgap"


def missing(found: Mapping[str, str | None]) -> list[str]:
    """Return the parts to build: the programs that were not found."""
    return [program for program, path in found.items() if path is None]


def prepare() -> Environment:
    """Make sure that all a cluster needs is here."""
    if choose(os.environ.get(VARIABLE), _registry_answers) == "registry":
        return _from_registry()
    return _from_airgap()


def _from_registry() -> Environment:
    found = {program: shutil.which(program) for program in TOOLS}
    built = build.build(missing(found))
    return Environment(
        name="registry",
        programs={
            program: path or str(Path(built[program]) / program) for program, path in found.items()
        },
        configuration=str(HERE / "stock.yaml"),
    )


def _from_airgap() -> Environment:
    built = build.build()
    _stand_in(built["python"], read_versions()["python"]["image"])
    return Environment(
        name="airgap",
        programs={
            program: str(Path(built[_BUILT_WITH_NODES.get(program, program)]) / program)
            for program in TOOLS
        },
        configuration=str(HERE / "airgap" / "kind.yaml"),
        node_image=built["node"],
        # The stand-in reaches the package indexes as this machine does.
        build_options="--network host",
    )


def _registry_answers() -> bool:
    image = f"docker.io/library/{read_versions()['python']['image']}"
    asked = subprocess.run(
        ["timeout", "60", "docker", "manifest", "inspect", image], capture_output=True, check=False
    )
    return asked.returncode == 0


def _stand_in(image: str, name: str) -> None:
    """Tag a stand-in with the name of the image that it replaces, unless that image exists."""
    labels = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{json .Config.Labels}}", name],
        capture_output=True,
        text=True,
        check=False,
    )
    if labels.returncode != 0 or build.LABEL in labels.stdout:
        subprocess.run(["docker", "tag", image, name], check=True)
