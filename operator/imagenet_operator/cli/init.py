"""`imagenetctl init FOLDER|TAR|URL`: writes a manifest that trains on these images as it is.

imagenet-inspect, a program of the workloads, lists and decodes the images. `first_manifest` decides
and gives the reasons. imagenet-train then takes 20 steps with the chosen network on synthetic
images, and the measured speed decides on the epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from imagenet_operator.cli import exit_codes, local_resources
from imagenet_operator.cli.arguments import Command, not_empty, path
from imagenet_operator.cli.commented_yaml import as_text
from imagenet_operator.cli.first_manifest import (
    First,
    Machine,
    Survey,
    Weights,
    alone_of,
    decide,
    job_name,
    weights_of,
)
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.clusters.local.machine import find_gpus
from imagenet_operator.manifests import arguments as program_arguments
from imagenet_operator.manifests import preview
from imagenet_operator.sdk import submission
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.names import IMAGENET_CREDENTIALS, IMAGENET_SOURCE
from imagenet_spec.program import programs
from imagenet_spec.program.train import TRAIN
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.validate import parse

_DEFAULT_FILE = Path("job.yaml")
_STEPS = 20
_REMOTE_IMAGES = 32
"""Images of a server that are read, besides the listing."""

_MEASURING_SECONDS = {False: 120, True: 480}
"""The most time for 20 steps twice, on CPUs and on GPUs: compilation takes minutes."""

_PAGES = {"huggingface.co": "hf", "www.kaggle.com": "kaggle", "kaggle.com": "kaggle"}
_EXAMPLES = """examples:
  imagenetctl init photos            a folder of class folders, or a tree with train and val
  imagenetctl init photos.tar --into photos.yaml
  imagenetctl init s3://bucket/photos/ --secret keys=FOLDER --gpus 8:H100
  imagenetctl init hf://datasets/OWNER/NAME
  imagenetctl init photos --pretrained resnet18-f37072fd.pth

Then: imagenetctl run job.yaml
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="write a manifest for a folder, archive or URL of images",
        description="Look at images, and write a manifest that trains on them as it is. Each "
        "choice has its reason in a comment.",
        examples=_EXAMPLES,
    )
    add_source(parser)
    parser.add_argument(
        "--into",
        type=path,
        default=_DEFAULT_FILE,
        metavar="FILE",
        help="the manifest (default: %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing manifest")
    parser.add_argument(
        "--gpus",
        type=_gpus,
        metavar="N[:TYPE]",
        help="GPUs that train, such as 8:H100; 0 for CPUs (default: those of this machine)",
    )
    parser.add_argument(
        "--pretrained",
        type=path,
        metavar="FILE",
        help="weights to start from, named as torchvision or timm names them (default with "
        "PyTorch: the smallest network in the caches of timm and torchvision, if they have any)",
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare the images that a command looks at, and the login of a server."""
    parser.add_argument(
        "source",
        type=not_empty,
        metavar="FOLDER|TAR|URL",
        help="a folder; a tar, zip or Parquet file; or an address: http://, https://, "
        "s3://BUCKET/KEY, hf://datasets/OWNER/NAME, kaggle://datasets/OWNER/NAME, "
        "kaggle://competitions/NAME",
    )
    parser.add_argument(
        "--secret",
        type=local_resources.mapping,
        metavar="NAME=FOLDER",
        help="the Secret of a server or bucket, and its folder here, with a file for each key",
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="the API of a bucket, of Hugging Face or of Kaggle"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the manifest; return the exit code."""
    into: Path = arguments.into
    if into.exists() and not arguments.overwrite:
        raise ImageNetJobError(
            f"{into} exists; write another file with --into FILE, or replace it with --overwrite"
        )
    secret = None if arguments.secret is None else arguments.secret[0]
    name, source, folder = source_of(arguments.source, secret, arguments.endpoint)
    require_valid(arguments.source, draft(name, source))
    local = None if folder is None else _relative(folder, into)
    say(f"looking at {arguments.source}")
    read = {"images": _REMOTE_IMAGES} if folder is None else {}
    survey = Survey.from_document(inspect(source, folder, arguments.secret, read))
    survey = replace(survey, where=arguments.source)
    first = None
    for machine in _machines(arguments.gpus):
        weights = _weights(arguments.pretrained, machine, into)
        given: Mapping[str, Any] = {
            "name": name,
            "source": source,
            "local_path": local,
            "weights": weights,
        }
        try:
            first = decide(survey, machine, **given)
            speed = _measured(
                require_valid(arguments.source, first.manifest), machine, survey, given
            )
        except _CannotTrainError as error:
            say(f"GPUs are left out: {error}")
            continue
        first = decide(survey, machine, **given, speed=speed)
        break
    assert first is not None, "CPUs are last, and their errors are not caught"
    require_valid(arguments.source, first.manifest)
    try:
        into.write_text(as_text(first.manifest, first.reasons, first.header), encoding="utf-8")
    except OSError as error:
        raise LocalError(f"cannot write {into}: {error.strerror}; name another --into") from error
    _report(first, into, arguments.secret)
    return exit_codes.SUCCESS


class _CannotTrainError(Exception):
    """GPUs of this machine that the user has not named cannot train."""


def say(text: str) -> None:
    """Print a line for people."""
    print(text, file=sys.stderr, flush=True)


def _report(first: First, into: Path, secret: tuple[str, Path] | None) -> None:
    for warning in first.warnings:
        say(f"warning: {warning}")
    training = first.manifest["spec"]["training"]
    model = training["model"]
    depth = f"-{model['numLayers']}" if "numLayers" in model else ""
    print(
        f"wrote {into}: {model['network']}{depth} at {model['imageShape'][1]} pixels, "
        f"{training['framework']}, {training['epochs']} epochs, batch {training['batchSize']}"
    )
    print(first.header[-1])
    command = ["imagenetctl", "run", str(into)]
    command += [] if secret is None else ["--secret", f"{secret[0]}={secret[1]}"]
    print(f"\nNow train:\n\n  {shlex.join(command)}\n\nthen\n\n  imagenetctl predict IMAGE…")


def source_of(
    text: str, secret: str | None = None, endpoint: str | None = None
) -> tuple[str, dict[str, Any], Path | None]:
    """Return the job's name, `spec.dataset.source` and the folder of its claim on this machine.

    `secret` is the name of the Secret of a server or bucket, `endpoint` the address of its API.

    Raises:
        ImageNetJobError: There is no such path, or no such kind of address.
    """
    if "://" not in text:
        if secret or endpoint:
            raise ImageNetJobError("--secret and --endpoint are for the address of a server")
        return _volume(Path(text))
    url = urlsplit(text)
    parts = [unquote(part) for part in url.path.split("/") if part]
    scheme, host = url.scheme, url.hostname or ""
    if url.hostname in _PAGES:
        # The address of a page: what follows the host says what it is of.
        of = parts.pop(0) if parts else ""
        scheme, host = _PAGES[url.hostname], "competitions" if of == "c" else of
    common = {name: value for name, value in (("secretName", secret),) if value}
    if endpoint and scheme not in ("http", "https"):
        common["endpoint"] = endpoint
    if scheme in ("http", "https"):
        kind, fields = "http", _served(text)
        name = Path(parts[-1] if parts else host).name
    elif scheme == "s3" and parts:
        is_file = not text.endswith("/") and "." in parts[-1]
        fields = {"bucket": url.netloc, "key" if is_file else "prefix": "/".join(parts)}
        kind, name = "s3", parts[-1]
    elif scheme == "hf" and host == "datasets" and len(parts) >= 2:
        kind, fields = "huggingFace", _of_hugging_face(parts)
        name = fields["dataset"].rpartition("/")[2]
    elif scheme == "kaggle" and host == "competitions" and parts:
        kind, fields, name = "kaggle", {"competition": parts[0]}, parts[0]
    elif scheme == "kaggle" and host == "datasets" and len(parts) >= 2:
        kind, fields, name = "kaggle", {"dataset": "/".join(parts[:2])}, parts[1]
    else:
        raise ImageNetJobError(
            f"{text}: is no address of images; write http://…, https://…, s3://BUCKET/PREFIX, "
            "hf://datasets/OWNER/NAME, kaggle://datasets/OWNER/NAME or kaggle://competitions/NAME"
        )
    return job_name(_stem(name)), {kind: {**fields, **common}}, None


def _volume(source: Path) -> tuple[str, dict[str, Any], Path]:
    try:
        found = source.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ImageNetJobError(
            f"{source}: there is no such folder or file; write a folder, an archive or an address"
        ) from error
    name = job_name(_stem(found.name))
    folder, inside = (found, ".") if found.is_dir() else (found.parent, found.name)
    return name, {"volume": {"claimName": f"{name}-images", "path": inside}}, folder


def _served(text: str) -> dict[str, Any]:
    folder, _, last = text.rpartition("/")
    if "{" in last:
        return {"folder": {"url": f"{folder}/", "names": [last]}}
    name = re.sub(r"[^-A-Za-z0-9._]", "-", unquote(last.partition("?")[0])).lstrip("-._")
    return {"files": [{"name": name or "images", "url": text}]}


def _of_hugging_face(parts: Sequence[str]) -> dict[str, Any]:
    owner, (name, _, revision) = parts[0], parts[1].partition("@")
    below = list(parts[2:])
    # As in the address of a page: OWNER/NAME/tree/REVISION/PATH.
    if len(below) >= 2 and below[0] in ("tree", "blob", "resolve"):
        revision, below = below[1], below[2:]
    found = {"dataset": f"{owner}/{name}", "revision": revision, "path": "/".join(below)}
    return {field: value for field, value in found.items() if value}


def _stem(name: str) -> str:
    """Return the name of an archive without its suffixes, and a range of numbers."""
    plain = re.sub(r"\{[^}]*\}", "", name)
    return re.sub(r"(\.(tar|tgz|zip|parquet|gz|bz2|xz|zst))+$", "", plain.lower()) or plain


def _relative(folder: Path, into: Path) -> str:
    return os.path.relpath(folder, into.resolve().parent)


def draft(name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid job of a source, before anything is known about it."""
    model = {"network": "resnet", "numLayers": 50}
    training = {"strategy": {"single": {}}, "model": model, "batchSize": 1, "epochs": 1}
    return {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name},
        "spec": {
            "dataset": {"source": source, "volume": {"size": "1Gi"}},
            "training": training,
        },
    }


def require_valid(source: str, document: Mapping[str, Any]) -> ImageNetJob:
    """Return a job as the operator reads it, or raise what makes it invalid."""
    if found := submission.problems(dict(document)):
        lines = "\n".join(f"  {problem}" for problem in found)
        raise ImageNetJobError(f"{source}: cannot be the source of a job:\n{lines}")
    return parse(dict(document))


def inspect(
    source: Mapping[str, Any],
    folder: Path | None,
    secret: tuple[str, Path] | None,
    read: Mapping[str, Any],
) -> dict[str, Any]:
    """Look at the images by imagenet-inspect, and return its result.

    `folder` is that of the source's claim, None for a server or bucket. `read` has the values of
    options for the sample.

    Raises:
        ImageNetJobError: The images cannot be read, or not as classes.
    """
    options = program_arguments.of_program(parse(draft("draft", source)), programs.INSPECT, read)
    # What is on the pod's volume is in the folder here.
    options = tuple(option.replace(f"$({IMAGENET_SOURCE})", str(folder)) for option in options)
    variables = dict(os.environ)
    if secret is not None:
        variables[IMAGENET_CREDENTIALS] = str(secret[1])
    program = environments.programs().find(programs.INSPECT.name, trains=False)
    done = subprocess.run(
        [str(program), *options], env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [
            f"{programs.INSPECT.name} exited with {done.returncode}"
        ]
        raise ImageNetJobError("\n".join(lines).replace(f"{programs.INSPECT.name}: error: ", ""))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _gpus(text: str) -> tuple[int, str]:
    count, _, name = text.partition(":")
    if not count.isdecimal() or (":" in text and not name.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not N or N:TYPE, such as 8:H100")
    return int(count), name.strip()


def _machines(wanted: tuple[int, str] | None) -> Iterator[Machine]:
    """Yield the machines that may train, the best first; CPUs last, unless GPUs were named."""
    cores, known = len(os.sched_getaffinity(0)), installed()
    here, kind = _own_gpus()
    if wanted is None:
        if here:
            yield Machine(cores, known, here, kind)
        yield Machine(cores, known)
        return
    count, named = wanted
    machine = Machine(cores, known, count, named or kind)
    is_here = count <= here and (not named or machine.gpu == replace(machine, gpu_type=kind).gpu)
    yield replace(machine, is_here=is_here or not count)


def installed() -> list[str]:
    """Return the frameworks that can train on this machine, by name."""
    return [name for name in FRAMEWORKS if environments.has_framework(name)]


def _own_gpus() -> tuple[int, str]:
    count = len(find_gpus(None, os.environ, Path("/dev")))
    if not count:
        return 0, ""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return count, ""
    return count, listing.partition("\n")[0].strip()


def _weights(given: Path | None, machine: Machine, into: Path) -> Weights | None:
    if given is not None:
        if not given.is_file():
            raise ImageNetJobError(f"--pretrained {given}: there is no such file")
        network = weights_of(given.name) or weights_of("/".join(given.absolute().parts[-4:]))
        if network is None:
            raise ImageNetJobError(
                f"--pretrained {given}: its name says no network; name it as torchvision or timm "
                "does, such as resnet18-f37072fd.pth or timm--resnet18.safetensors"
            )
        path_here = _relative(given.absolute(), into)
        return Weights(
            given.name, given.absolute(), path_here, "the file of --pretrained", *network
        )
    if all("pretrained" in FRAMEWORKS[name].lacks for name in machine.frameworks):
        return None
    found = []
    for file, named in cached_weights(os.environ):
        network = weights_of(named)
        if network is not None:
            found.append((file.stat().st_size, file, network))
    if not found:
        return None
    _, file, network = min(found)
    name = f"{network[0].replace('/', '--')}-{file.name}" if file.stem == "model" else file.name
    where = "found in the cache of this machine"
    return Weights(name, file, _relative(file, into), where, *network)


def cached_weights(variables: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of weights that timm and torchvision have downloaded, each with its name."""
    home = Path(variables.get("HOME") or "/")
    cache = Path(variables.get("XDG_CACHE_HOME") or home / ".cache")
    hugging_face = Path(variables.get("HF_HOME") or cache / "huggingface")
    hub = Path(variables.get("HF_HUB_CACHE") or hugging_face / "hub")
    for file in sorted(hub.glob("models--timm--*/snapshots/*/model.safetensors")):
        yield file, file.parents[2].name
    torch = Path(variables.get("TORCH_HOME") or cache / "torch")
    for file in sorted((torch / "hub" / "checkpoints").glob("*.pth")):
        yield file, file.name


def _measured(
    job: ImageNetJob, machine: Machine, survey: Survey, given: Mapping[str, Any]
) -> float | None:
    """Return images/s of 20 steps after as many for warm-up; None if they cannot be taken here.

    Raises:
        ImageNetJobError: The weights do not fit the network.
        _CannotTrainError: GPUs of this machine cannot train.
    """
    if not machine.is_here:
        return None
    say(f"taking {_STEPS} steps on {machine}")
    with tempfile.TemporaryDirectory(prefix="imagenetctl-init-") as folder:
        code, output = _train(job, machine, survey, given, Path(folder))
        if code == 0:
            events = [
                json.loads(line)
                for file in Path(folder).glob("**/metrics.jsonl")
                for line in file.read_text().splitlines()
            ]
            speeds = [
                float(one["imagesPerSecond"]) for one in events if one.get("event") == "epoch"
            ]
            # The rate of one GPU, of several that share the work.
            return speeds[-1] * max(1, machine.gpus) if speeds and speeds[-1] > 0 else None
    reason = (output.strip().splitlines() or ["no output"])[-1]
    if given["weights"] is not None and "--pretrained" in reason:
        raise ImageNetJobError(reason.partition("error: ")[2] or reason)
    if machine.gpus:
        raise _CannotTrainError(reason)
    say(f"warning: {_STEPS} steps could not be measured: {reason}")
    return None


def _train(
    job: ImageNetJob,
    machine: Machine,
    survey: Survey,
    given: Mapping[str, Any],
    folder: Path,
) -> tuple[int, str]:
    """Take a few steps of a job's network with one GPU, or on CPUs."""
    (pod,) = (
        one
        for one in preview.everything(submission.as_stored(_on_one_device(job)))
        if one["kind"] == "Pod"
    )
    words = pod["spec"]["containers"][0]["args"]
    pairs = [words[place : place + 2] for place in range(0, len(words), 2)]
    # What is on the pod's volumes has another place here.
    options = [word for pair in pairs if "$(" not in pair[-1] for word in pair]
    if given["weights"] is not None:
        options += ["--pretrained", str(given["weights"].source)]
    options += ["--benchmark", "1", "--num-epochs", "2", "--max-batches", str(_STEPS)]
    options += ["--num-classes", str(len(survey.classes)), "--output", str(folder)]
    program = environments.programs(environments.of_job(job)).find(TRAIN.name, trains=True)
    threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(machine.cores))}
    try:
        done = subprocess.run(
            [str(program), *options],
            env={**os.environ, **threads},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_MEASURING_SECONDS[bool(machine.gpus)],
        )
    except subprocess.TimeoutExpired:
        return 1, f"they took more than {_MEASURING_SECONDS[bool(machine.gpus)]} s"
    return done.returncode, done.stdout


def _on_one_device(job: ImageNetJob) -> ImageNetJob:
    """Return a job with one worker that has at most one GPU, and its part of the batch."""
    training = job.spec.training
    gpus = training.workers.replicas * training.workers.gpus
    if gpus <= 1:
        return job
    manifest = job.to_manifest()
    manifest["spec"]["training"] |= {
        "strategy": {alone_of(training.framework): {}},
        "workers": {"replicas": 1, "gpus": 1},
        "batchSize": training.batch_size // gpus,
    }
    return parse(manifest)
