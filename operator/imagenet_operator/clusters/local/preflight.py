"""Before anything starts: whether this machine can run every pod that a job is going to need.

`cli.run` asks once. Everything that a later failure would tell after minutes of preparation (a
missing program, too few GPUs, an empty claim, a sidecar in a template) is told now.
"""

from dataclasses import dataclass

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import pods
from imagenet_operator.clusters.local.environments import Programs, is_member
from imagenet_operator.clusters.local.volumes import Volumes
from imagenet_operator.manifests import preview, volumes
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.reconcile.decide import is_managed


@dataclass(frozen=True)
class Needs:
    """What a job's pods need of a machine.

    Attributes:
        programs: The console scripts that they run, and whether it is to train.
        mounted: The claims that they mount.
        claims: Of these, those that the job does not make.
        secrets: The Secrets that they mount.
        gpus: GPUs of one attempt.
        ports: Ports that they listen on.
    """

    programs: frozenset[tuple[str, bool]]
    mounted: frozenset[str]
    claims: frozenset[str]
    secrets: frozenset[str]
    gpus: int
    ports: frozenset[int]


def images(settings: Settings) -> frozenset[str]:
    """The images whose programs are installed with this package's sibling."""
    return frozenset(
        image for images in settings.images.values() for image in (images.cpu, images.gpu)
    )


def needs(job: ImageNetJob, settings: Settings) -> Needs:
    """What the job needs.

    Raises:
        LocalError: The job says that somebody else works on it.
        Unsupported: A pod uses what a local run cannot do.
        InvalidTemplate: A template has no meaning, or overrides what is the operator's.
    """
    if not is_managed(job):
        raise LocalError(
            f"spec.runPolicy.managedBy: {job.spec.run_policy.managed_by} works on this job, and "
            "imagenetctl would leave it alone; remove the field to run it here"
        )
    built = preview.everything(job, settings)
    members = [item for item in built if item["kind"] == "Pod"]
    everything = [item["spec"]["template"] for item in built if item["kind"] == "Job"] + members
    for pod in everything:
        pods.check(pod, images(settings))
    mounted = frozenset(claim for pod in everything for claim in pods.claims(pod))
    made = {claim["metadata"]["name"] for claim in volumes.claims(job)}
    return Needs(
        programs=frozenset((pods.program(pod), is_member(pod)) for pod in everything),
        mounted=mounted,
        claims=mounted - made,
        secrets=frozenset(secret for pod in everything for secret in pods.secrets(pod)),
        gpus=sum(pods.gpus(pod) for pod in members),
        ports=frozenset(port for pod in everything for port in pods.ports(pod)),
    )


def check(wanted: Needs, capacity: int, found: Volumes, programs: Programs) -> None:
    """Compare what a job needs with what there is.

    Args:
        wanted: What the job needs.
        capacity: How many GPUs there are.
        found: The claims.
        programs: Where programs are looked for.

    Raises:
        LocalError: Something is missing; it says what, and what to do.
    """
    for program, trains in sorted(wanted.programs):
        programs.find(program, trains=trains)
    if wanted.gpus > capacity:
        raise LocalError(
            f"the job asks for {wanted.gpus} GPUs at a time and this machine has {capacity}; "
            "lower spec.training.workers.replicas or gpus, or say with --gpus how many there are"
        )
    for claim in sorted(wanted.claims):
        found.folder(claim)
    for secret in sorted(wanted.secrets):
        found.secret(secret)


def check_mapped(mounted: frozenset[str], secrets: frozenset[str], found: Volumes) -> None:
    """See that --volume and --secret name what the job mounts: a misspelt name has no effect.

    Args:
        mounted: The claims of all that is going to run.
        secrets: The Secrets of all that is going to run.
        found: The folders of claims and Secrets.

    Raises:
        LocalError: The job mounts no such claim or Secret.
    """
    for claim in sorted(found.mapped - mounted):
        raise LocalError(
            f"--volume {claim}=…: nothing mounts a claim {claim!r}; "
            f"write one of {', '.join(sorted(mounted))}"
        )
    for secret in sorted(found.secrets.keys() - secrets):
        instead = f"write one of {', '.join(sorted(secrets))}" if secrets else "leave it out"
        raise LocalError(f"--secret {secret}=…: nothing mounts a Secret {secret!r}; {instead}")
