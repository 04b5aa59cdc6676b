"""`imagenetctl doctor`: what this machine and the cluster have and lack, each with its remedy.

A `Finding` is one line. Only what stops every local run is a failure: without a cluster, a GPU or
one of several frameworks, jobs still run here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_operator.cli import exit_codes, local_resources
from imagenet_operator.cli.arguments import Command, add_workdir
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments, frameworks
from imagenet_operator.clusters.local.machine import claim_addresses, find_gpus
from imagenet_operator.manifests import rendezvous
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import Framework
from imagenet_spec.frameworks.installation import WORKLOADS, requirements
from imagenet_spec.names import TRAIN_PROGRAM
from imagenet_spec.resource import Manifest
from imagenet_spec.resource.job import GROUP, PLURAL, VERSION

if TYPE_CHECKING:
    from imagenet_operator.clusters.kubernetes.login import Connection

_EXAMPLES = """examples:
  imagenetctl doctor
  imagenetctl doctor --context production --namespace vision
                                     rights on that cluster

A line begins with "ok", with "-" if something is missing that a local run can do without, and with
"FAIL" if no local run is possible.
"""

DISTRIBUTIONS = ("imagenet-operator", "imagenet-spec", WORKLOADS)
LIBRARIES = {
    "plot": "plots",
    "s3": "buckets",
    "heic": "HEIC images",
    "parquet": "Parquet files",
    "hugging-face": "Hugging Face",
    "kaggle": "Kaggle",
    "export": "model export",
}
"""The extras of imagenet-workloads that are no framework → what they are for."""

OLDEST_KUBERNETES = (1, 29)
_ANSWER_SECONDS = 15.0
_IMPORT_SECONDS = 120
SMALL_SHARED_MEMORY = 1 << 30
_SHM = Path("/dev/shm")

_PROBE = """
import importlib, sys
module, count = sys.argv[1:]
try:
    found = importlib.import_module(module)
    print(found.__version__, eval(count, {module: found}) if count else 0)
except Exception as error:
    try:
        from imagenet_workloads.process.program import explain_missing_library
        error = explain_missing_library(error) or error
    except ImportError:
        pass
    sys.exit(" ".join(str(error).split()))
"""
"""Imports a framework; prints its version and the number of GPUs that it sees."""


class Level(StrEnum):
    """How a line begins."""

    OK = "ok"
    MISSING = "-"
    FAILURE = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line: what was examined, what was found and, if something has to be done, what."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level:<5}{self.subject:<18} {self.text}{remedy}"


@dataclass(frozen=True)
class GPU:
    """One GPU, as nvidia-smi lists it; the memory is with its unit."""

    name: str
    capability: tuple[int, int]
    memory: str
    driver: str


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="check this machine and the cluster, with a remedy for each problem",
        description="Check Python, libraries, GPUs, ports, memory and the rights on the cluster.",
        examples=_EXAMPLES,
    )
    add_workdir(parser, "folder of data, results and logs")
    local_resources.add_metrics_port(parser)
    parser.add_argument(
        "--context",
        metavar="NAME",
        help="the KUBECONFIG context of the cluster (default: the current one)",
    )
    parser.add_argument("--namespace", help="the namespace of the jobs (default: the context's)")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; return the exit code."""
    has_failed = False
    for finding in findings(arguments):
        print(finding, flush=True)
        has_failed |= finding.level is Level.FAILURE
    return exit_codes.ENVIRONMENT if has_failed else exit_codes.SUCCESS


def findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Yield each finding as soon as it is made."""
    yield python()
    yield distributions()
    gpus = list_gpus()
    yield from of_frameworks(len(gpus))
    yield from libraries()
    yield from of_gpus(gpus)
    yield from ports(arguments.metrics_port)
    yield shared_memory()
    yield working_directory(arguments.workdir)
    yield from cluster(arguments.context, arguments.namespace)


def python() -> Finding:
    """Examine the Python that runs this, and the operating system."""
    text = f"{sys.version.split()[0]} in {sys.prefix}, {len(os.sched_getaffinity(0))} CPU cores"
    if sys.platform != "linux":
        return Finding(Level.FAILURE, "Python", text, "a local run needs Linux")
    wanted = metadata.metadata(DISTRIBUTIONS[0])["Requires-Python"]
    least, beyond = sorted(int(minor) for minor in re.findall(r"3\.(\d+)", wanted))
    if least <= sys.version_info.minor < beyond:
        return Finding(Level.OK, "Python", text)
    remedy = f"install Python 3.{least} to 3.{beyond - 1}"
    return Finding(Level.FAILURE, "Python", text, remedy)


def distributions() -> Finding:
    """Examine whether all packages of this project are here, in one version."""
    versions, missing = {}, []
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    how = "make install" if frameworks.is_checkout() else "pip install dist/*.whl, of one release"
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    if missing:
        absent = f"without {', '.join(missing)}"
        return Finding(Level.FAILURE, "packages", f"{text}, {absent}", f"type: {how}")
    if len(set(versions.values())) > 1:
        return Finding(Level.FAILURE, "packages", f"different versions: {text}", f"type: {how}")
    return Finding(Level.OK, "packages", text)


def of_frameworks(gpus: int) -> Iterator[Finding]:
    """Examine each framework, and the strategies that have environments of their own."""
    found = [of_framework(framework, gpus) for framework in FRAMEWORKS.values()]
    works = any(finding.level is Level.OK for finding in found)
    yield from found
    if not works:
        remedy = "install one of these"
        yield Finding(Level.FAILURE, "frameworks", "no job can train on this machine", remedy)
    for name, framework in FRAMEWORKS.items():
        for strategy, support in framework.strategies.items():
            if support.environment is not None:
                subject = f"{name}, {strategy}"
                try:
                    program = environments.programs(support.environment).find(
                        TRAIN_PROGRAM, trains=True
                    )
                except LocalError as error:
                    yield Finding(Level.MISSING, subject, str(error))
                else:
                    yield Finding(Level.OK, subject, f"in {program.parent.parent}")


def of_framework(framework: Framework, gpus: int) -> Finding:
    """Import a framework in its environment; say how many GPUs it sees."""
    name = framework.name
    target = framework.environment.target if framework.environment else "install"
    how = frameworks.how_to_install(name) or f"make {target}"
    if not environments.has_framework(name):
        return Finding(Level.MISSING, name, "not installed", f"type: {how}")
    program = environments.programs(framework.environment).find(TRAIN_PROGRAM, trains=True)
    interpreter = program.with_name("python")
    command = [str(interpreter), "-c", _PROBE, framework.module, framework.count_gpus]
    try:
        probe = subprocess.run(
            command, capture_output=True, text=True, timeout=_IMPORT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(Level.MISSING, name, f"cannot be imported: {error}", f"type: {how}")
    if probe.returncode != 0:
        why = (probe.stderr.strip().splitlines() or ["no reason is given"])[-1]
        # An explained error has its remedy.
        remedy = "" if "; " in why else f"type: {how}"
        return Finding(Level.MISSING, name, f"cannot be imported: {why}", remedy)
    version, seen = probe.stdout.split()[-2:]
    text, remedy = f"{version} in {program.parent.parent}", ""
    if gpus:
        text += f", sees {seen} of {gpus} GPU{'' if gpus == 1 else 's'}"
        remedy = "" if int(seen) else "for jobs with `gpus`, install its build for GPUs"
    return Finding(Level.OK, name, text, remedy)


def libraries() -> Iterator[Finding]:
    """Examine the libraries that only some jobs and commands need."""
    for extra, purpose in LIBRARIES.items():
        missing, there = {}, []
        for requirement in requirements(extra):
            library = re.split(r"[^\w.-]", requirement)[0]
            try:
                there.append(f"{library} {metadata.version(library)}")
            except metadata.PackageNotFoundError:
                missing[library] = requirement
        if missing:
            how = shlex.join([frameworks.program("pip"), "install", *missing.values()])
            text = f"without {', '.join(missing)}"
            yield Finding(Level.MISSING, purpose, text, f"type: {how}")
        else:
            yield Finding(Level.OK, purpose, ", ".join(there))


def list_gpus() -> list[GPU]:
    """Return the GPUs that nvidia-smi lists; none without it."""
    fields = "name,compute_cap,memory.total,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return read_gpus(listed.stdout)


def read_gpus(listing: str) -> list[GPU]:
    """Read the output of nvidia-smi: a GPU a line, as ``NVIDIA H200, 9.0, 143771 MiB, 570.86``."""
    found = []
    for line in listing.splitlines():
        name, capability, memory, driver = (cell.strip() for cell in line.rsplit(",", 3))
        if re.fullmatch(r"\d+\.\d+", capability):
            major, _, minor = capability.partition(".")
            found.append(GPU(name, (int(major), int(minor)), memory, driver))
    return found


def of_gpus(gpus: list[GPU], variables: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Examine the GPUs, and which frameworks' GPU code runs on each."""
    if not gpus:
        nodes = find_gpus(None, {}, Path("/dev"))
        if nodes:
            text = f"{len(nodes)} in /dev, and no nvidia-smi"
            yield Finding(Level.MISSING, "GPUs", text, "install the driver's nvidia-smi")
        else:
            yield Finding(Level.MISSING, "GPUs", "none; jobs without `gpus` train on CPU cores")
        return
    for gpu in dict.fromkeys(gpus):
        count = gpus.count(gpu)
        runs = [f.name for f in FRAMEWORKS.values() if f.gpu_code.runs_on(gpu.capability)]
        older = [f"{f.name} (for {f.gpu_code})" for f in FRAMEWORKS.values() if f.name not in runs]
        text = (
            f"{count} x {gpu.name}, {gpu.memory}, compute capability "
            f"{'.'.join(map(str, gpu.capability))}, driver {gpu.driver}: runs "
            f"{', '.join(runs) or 'no framework'}"
        )
        if older:
            text += f", and not {', '.join(older)}"
        remedy = "" if runs else "train on CPUs, without `gpus`"
        yield Finding(Level.OK if runs else Level.MISSING, "GPUs", text, remedy)
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        usable = len(find_gpus(None, variables, Path("/dev")))
        text = f"CUDA_VISIBLE_DEVICES={visible} allows {usable} of {len(gpus)}"
        remedy = "" if usable == len(gpus) else "type: unset CUDA_VISIBLE_DEVICES, to use all"
        yield Finding(Level.OK if usable else Level.MISSING, "GPUs", text, remedy)


def ports(metrics: int) -> Iterator[Finding]:
    """Examine the loopback addresses, the ports that pods listen on, and that of --metrics-port."""
    own = (rendezvous.RENDEZVOUS_PORT, rendezvous.MEMBER_PORT)
    another = {metrics: f"type: imagenetctl run FILE --metrics-port {metrics + 10_000}"}
    for wanted, level in ((own, Level.FAILURE), ((metrics,), Level.MISSING)):
        text = " and ".join(map(str, wanted))
        try:
            claim_addresses(wanted, another).close()
        except LocalError as error:
            yield Finding(level, "ports", str(error))
        except OSError as error:
            remedy = "type: ip link set lo up"
            yield Finding(Level.FAILURE, "ports", f"no loopback addresses: {error}", remedy)
        else:
            yield Finding(Level.OK, "ports", f"{text} can be used")


def shared_memory(folder: Path = _SHM) -> Finding:
    """Examine /dev/shm, through which processes of one machine exchange gradients."""
    remedy = "in a container, start it with --shm-size=1g"
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(Level.MISSING, str(folder), f"cannot be used: {error.strerror}", remedy)
    if not os.access(folder, os.W_OK):
        return Finding(Level.MISSING, str(folder), "cannot be written", remedy)
    text = f"{free / (1 << 20):,.0f} MiB free"
    if free < SMALL_SHARED_MEMORY:
        text += ", which is little for several GPUs or Horovod"
        return Finding(Level.MISSING, str(folder), text, remedy)
    return Finding(Level.OK, str(folder), text)


def working_directory(workdir: Path) -> Finding:
    """Examine whether the working directory can be written, and its free space."""
    subject = "working directory"
    try:
        folder = local_resources.resolved(workdir)
    except LocalError as error:
        return Finding(Level.FAILURE, subject, str(error))
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        remedy = "name another one with --workdir"
        return Finding(Level.FAILURE, subject, f"{folder} cannot be written", remedy)
    free = shutil.disk_usage(there).free
    return Finding(Level.OK, subject, f"{folder}, {free / 1e9:,.0f} GB free")


def cluster(context: str | None, namespace: str | None) -> Iterator[Finding]:
    """Examine the cluster: whether it answers, has the operator, and lets the user create jobs."""
    # Imported here: its client takes a moment, which no other command should wait for.
    from imagenet_operator.clusters.kubernetes import login

    try:
        connection = login.find() if context is None else login.of_context(context)
    except ImageNetJobError as error:
        yield Finding(Level.MISSING, "cluster", f"none, and local runs need none: {error}")
        return
    yield from asyncio.run(of_cluster(connection, namespace or connection.namespace))


async def of_cluster(connection: Connection, namespace: str) -> list[Finding]:
    """Examine the cluster of a connection."""
    from imagenet_operator.clusters.kubernetes.client import ApiError, Client

    subject, found = "cluster", []
    try:
        async with asyncio.timeout(_ANSWER_SECONDS), Client(connection) as client:
            version = str((await client.get("/version"))["gitVersion"])
            numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
            text = f"{connection.server}, Kubernetes {version}"
            if numbers < OLDEST_KUBERNETES:
                remedy = f"upgrade it to {'.'.join(map(str, OLDEST_KUBERNETES))} or newer"
                found.append(Finding(Level.MISSING, subject, text, remedy))
            else:
                found.append(Finding(Level.OK, subject, text))
            try:
                await client.get(f"/apis/{GROUP}/{VERSION}")
                found.append(Finding(Level.OK, "operator", "ImageNetJobs are known"))
            except ApiError as error:
                if error.code != 404:
                    raise
                remedy = "install the operator: docs/install.md"
                text = "ImageNetJobs are not known"
                found.append(Finding(Level.MISSING, "operator", text, remedy))
            for verb, group, resource in (
                ("create", GROUP, PLURAL),
                ("get", GROUP, PLURAL),
                ("get", "", "pods/log"),
            ):
                path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
                answer = await client.create(path, _review(namespace, verb, group, resource))
                what = f"{verb} {resource} in namespace {namespace}"
                if answer.get("status", {}).get("allowed"):
                    found.append(Finding(Level.OK, "rights", f"you may {what}"))
                else:
                    remedy = (
                        "ask an administrator for: kubectl create rolebinding imagenet-jobs "
                        f"--clusterrole=edit --user=YOU --namespace={namespace}"
                    )
                    found.append(Finding(Level.MISSING, "rights", f"you may not {what}", remedy))
    except TimeoutError:
        text = f"{connection.server} does not answer within {_ANSWER_SECONDS:g} s"
        remedy = "check its address in KUBECONFIG, and the network"
        found.append(Finding(Level.MISSING, subject, text, remedy))
    except ImageNetJobError as error:
        remedy = "check with: kubectl cluster-info"
        found.append(Finding(Level.MISSING, subject, str(error), remedy))
    return found


def _review(namespace: str, verb: str, group: str, resource: str) -> Manifest:
    name, _, subresource = resource.partition("/")
    wanted = {"namespace": namespace, "verb": verb, "group": group, "resource": name}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**wanted, "subresource": subresource}},
    }
