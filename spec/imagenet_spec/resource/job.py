"""The resource as a whole: ImageNetJob, group imagenet.dev, version v1alpha1."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import Field

from imagenet_spec.resource import compatibility, elastic_workers, schema, table
from imagenet_spec.resource.base import DefaultWhenRead, Model, Unit
from imagenet_spec.resource.dataset import DatasetSpec
from imagenet_spec.resource.fields import (
    DNS_LABEL,
    INT32_MAXIMUM,
    JOB_NAME_MAXIMUM,
    Count,
    Manager,
    Seconds,
    Time,
)
from imagenet_spec.resource.sources.prepared import REMOTE_RULES
from imagenet_spec.resource.status import Status
from imagenet_spec.resource.strategies import STRATEGIES
from imagenet_spec.resource.training import TrainingSpec
from imagenet_spec.resource.volumes import SHARING_RULES
from imagenet_spec.rules import Rule

GROUP = "imagenet.dev"
VERSION = "v1alpha1"
KIND = "ImageNetJob"
PLURAL = "imagenetjobs"
MANAGER = "imagenet.dev/imagenet-operator"
"""The value of `managedBy` for this project's operator, which is also the default."""

LOCAL_PATH = f"{GROUP}/local-path"
"""The annotation with the folder of the source's claim on this machine, from the manifest's."""

LOCAL_WEIGHTS = f"{GROUP}/local-weights"
"""The annotation with the file of `model.pretrained` on this machine."""


class ObjectMeta(Model):
    """Every field of Kubernetes' ``meta/v1`` ObjectMeta, so that an unknown one is an error."""

    name: str = ""
    generate_name: str | None = None
    namespace: str = "default"
    uid: str = ""
    resource_version: str | None = None
    generation: int = 1
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    self_link: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[dict[str, Any], ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()

    @property
    def final_name(self) -> str:
        """The name, or one like that which the API server will generate (five characters more)."""
        return self.name or (f"{self.generate_name}xxxxx" if self.generate_name else "")


class SchedulingPolicy(Model):
    """Gang scheduling: all members of an attempt get nodes, or none keeps one."""

    gang: Literal["Timeout", "Wait"] = "Timeout"
    """Timeout withdraws an attempt that is not bound in time, without a charge, and tries again
    later. Wait holds its pods by a scheduling gate until all of them fit."""

    schedule_timeout_seconds: Seconds = 600
    """The time in which all members of an attempt must be bound, with Timeout."""


# The names are those of Kubeflow's runPolicy, if it has the field.
class RunPolicy(Model):
    """The policies for a job and its pods."""

    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """The pods that are deleted when the job ends. None also keeps the failed pods of an attempt
    until the next attempt fails."""

    ttl_seconds_after_finished: Annotated[int, Ge(0), Le(INT32_MAXIMUM), Unit("seconds")] | None = (
        None
    )
    """The time from the job's end to its deletion. Absent: it is not deleted."""

    active_deadline_seconds: Seconds | None = None
    """The longest time of training, over all attempts. Preparation, suspension, and waits
    for nodes or for a restart do not count."""

    preparation_deadline_seconds: Seconds | None = None
    """The longest time of the preparation. Suspension does not count."""

    start_deadline_seconds: Annotated[Seconds, DefaultWhenRead()] = 600
    """The time after which a job fails that cannot start because of an image or the configuration
    of its pods: a missing image, an invalid name, a missing Secret. It counts from the first such
    error and ends when the error does. A slow pull does not count."""

    progress_deadline_seconds: Seconds = 1800
    """The time without progress after which an attempt fails. It ends hangs in which every pod
    runs. It does not apply to an attempt whose metrics could never be read."""

    backoff_limit: Count = 6
    """The number of restarts after failed attempts before the job fails. Preemption, eviction and
    node loss do not count."""

    suspend: bool = False
    """Stops the job and frees its nodes, until it is false again."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    """Gang scheduling."""

    retention_policy: Literal["Retain", "Delete"] = "Retain"
    """Whether the claims that the operator created outlive the job."""

    managed_by: Manager | None = None
    """The manager of the job: absent or ``imagenet.dev/imagenet-operator`` for this operator. It
    ignores jobs with any other manager. Never changes."""


class ImageNetJobSpec(Model):
    """The desired state: a dataset, and a network that is trained on it."""

    dataset: DatasetSpec
    """The images, and their preparation."""

    training: TrainingSpec
    """The network, and the pods that train it."""

    run_policy: RunPolicy = RunPolicy()
    """Clean-up, deadlines and limits."""

    rules = (*compatibility.rules(), *SHARING_RULES, *REMOTE_RULES)

    @property
    def schedule_timeout_seconds(self) -> int:
        """The time in which all members of an attempt must be bound."""
        if elastic_workers.is_elastic(self.training):
            return elastic_workers.policy(self.training).wait_seconds
        return self.run_policy.scheduling_policy.schedule_timeout_seconds


_STARTED = "has(oldSelf.status) && has(oldSelf.status.startTime)"
_PAUSED = (
    "has(oldSelf.status.conditions)"
    " && oldSelf.status.conditions.exists(c, c.type == 'Suspended' && c.status == 'True')"
)
_TRAINING = "spec.training"
_STRATEGY = f"{_TRAINING}.strategy"
_CHANGE_WHILE_PAUSED = ("strategy", "batchSize", "workers")
_OUTPUT = f"{_TRAINING}.output"

_When = Literal["always", "started", "running", "paused"]
_CONDITIONS: dict[_When, str] = {
    "always": "true",
    "started": _STARTED,
    "running": f"{_STARTED} && !({_PAUSED})",
    "paused": f"{_STARTED} && {_PAUSED}",
}


def _fixed(
    path: str, when: _When, message: str, guard: str = "", *, is_optional: bool = True
) -> Rule:
    """Return the rule that a field keeps its value, by the job's state before the update.

    `guard` is an optional object on the path to the field. Rules are evaluated at every write of a
    status, and a check of existence costs as much as a read: only an optional field gets one.
    """
    new, old = f"self.{path}", f"oldSelf.{path}"
    same = f"{new} == {old}"
    if is_optional:
        same = f"has({new}) == has({old}) && (!has({new}) || {same})"
    absent = f"!has(self.{guard}) || !has(oldSelf.{guard}) || " if guard else ""
    return Rule(f"!({_CONDITIONS[when]}) || {absent}({same})", message, path)


def _has_volume(job: str) -> str:
    return f"(has({job}.{_OUTPUT}) && has({job}.{_OUTPUT}.volume))"


def _immutability() -> tuple[Rule, ...]:
    """Return the rules for fields that determine what is trained: fixed once a job has started.

    While it is suspended and has no pods, workers, templates and batch size may change, so that it
    can resume on other machines. `runPolicy` may always change, except `managedBy`, because two
    controllers could manage the job.
    """
    never = "cannot change once the job has started; create a new job"
    paused = "cannot change while the job runs; suspend it first"
    optional = {
        field.alias or name: not field.is_required() and field.get_default() is None
        for name, field in TrainingSpec.model_fields.items()
    }
    return (
        _fixed("spec.runPolicy.managedBy", "always", "cannot change; create a new job"),
        _fixed("spec.dataset", "started", never, is_optional=False),
        *(
            _fixed(f"{_TRAINING}.{name}", "started", never, is_optional=optional[name])
            for name in optional
            if name not in (*_CHANGE_WHILE_PAUSED, "output")
        ),
        # Where the results are uploaded may be corrected after a failure.
        Rule(
            f"!({_STARTED}) || ({_has_volume('self')} == {_has_volume('oldSelf')}"
            f" && (!{_has_volume('self')}"
            f" || self.{_OUTPUT}.volume == oldSelf.{_OUTPUT}.volume))",
            f"its volume {never}",
            _OUTPUT,
        ),
        *(
            _fixed(f"{_TRAINING}.{name}", "running", paused, is_optional=optional[name])
            for name in _CHANGE_WHILE_PAUSED
        ),
        *(
            _fixed(f"{_STRATEGY}.{kind}.{name}", "paused", never, guard=f"{_STRATEGY}.{kind}")
            for kind, fields in STRATEGIES.items()
            for name in fields.frozen
        ),
        *(
            Rule(
                f"!({_CONDITIONS['paused']}) || !has(oldSelf.{_STRATEGY}.{kind})"
                f" || has(self.{_STRATEGY}.{kind})",
                never,
                _STRATEGY,
            )
            for kind in STRATEGIES
        ),
    )


MEMBERS_OF_NEW_JOBS = 5_000
"""Workers and servers together; larger statuses have not been measured (docs/benchmarks.md).

A job that has conditions keeps its size, because an earlier version admitted it: the API server
applies rules also when the operator writes the status.
"""

_REPLICAS = "spec.training.workers.replicas"


def _members_cel(job: str) -> str:
    training = f"{job}.spec.training"
    servers = f"{training}.strategy.parameterServer"
    return f"{training}.workers.replicas + (has({servers}) ? {servers}.servers.replicas : 0)"


def _members(job: Any) -> int:
    training = job.spec.training
    sharded = training.strategy.parameter_server
    servers = 0 if sharded is None else sharded.servers.replicas
    return int(training.workers.replicas + servers)


_SIZE = Rule(
    cel=(
        "(has(self.status) && has(self.status.conditions))"
        f" || {_members_cel('self')} <= {MEMBERS_OF_NEW_JOBS}"
    ),
    message=f"workers and servers must be at most {MEMBERS_OF_NEW_JOBS} together",
    field=_REPLICAS,
    explain=lambda job: (
        f"workers and servers are {_members(job)} together",
        f"write at most {MEMBERS_OF_NEW_JOBS}",
    ),
)
_GROWTH = Rule(
    cel=(
        f"{_members_cel('self')} <= {MEMBERS_OF_NEW_JOBS}"
        f" || {_members_cel('self')} <= {_members_cel('oldSelf')}"
    ),
    message=f"workers and servers must not grow beyond {MEMBERS_OF_NEW_JOBS} together",
    field=_REPLICAS,
)
"""A job that has conditions must not grow beyond the limit either."""


class ImageNetJob(Model):
    """One job: prepares an image archive, and trains a network on several workers."""

    api_version: Literal["imagenet.dev/v1alpha1"] = "imagenet.dev/v1alpha1"
    """The group and version of this resource."""

    kind: Literal["ImageNetJob"] = "ImageNetJob"
    """The kind of this resource."""

    metadata: ObjectMeta
    """The object's name, namespace, labels…"""

    spec: ImageNetJobSpec
    """What is wanted."""

    status: Status = Status()
    """What the operator reports."""

    def _repr_html_(self) -> str:
        # What a notebook shows of the last value of a cell.
        return table.as_html([self])

    rules = (
        Rule(
            # A pattern, because `validate` would count the bytes of a text's size().
            cel=f"self.metadata.name.matches('^.{{0,{JOB_NAME_MAXIMUM}}}$')",
            message=f"must have at most {JOB_NAME_MAXIMUM} characters, because its pods' names "
            "are longer",
            field="metadata.name",
            explain=lambda job: (
                f"has {len(job.metadata.final_name)} characters, which leaves no room for the"
                " names of its pods",
                f"write at most {JOB_NAME_MAXIMUM}",
            ),
        ),
        Rule(
            cel=f"self.metadata.name.matches('{DNS_LABEL}')",
            message="must be a DNS-1035 label: a-z, 0-9 and -, a letter first, no - last",
            field="metadata.name",
            explain=lambda job: (
                f"{job.metadata.final_name!r} is not a DNS-1035 label",
                "write a-z, 0-9 and -, with a letter first and no - last",
            ),
        ),
        _SIZE,
        *_immutability(),
        _GROWTH,
    )


def root_schema(*, has_descriptions: bool = False) -> dict[str, Any]:
    """Return the schema of an ImageNetJob, with the sentences of its fields or without."""
    of_model = partial(schema.of_model, has_descriptions=has_descriptions)
    return {
        "type": "object",
        "description": " ".join((ImageNetJob.__doc__ or "").split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # Declared so that a rule may report it; the API server knows the rest of metadata.
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": {
                "description": "The desired state.",
                **of_model(ImageNetJobSpec),
            },
            "status": {
                "description": "What the operator reports.",
                **of_model(Status, has_defaults=False),
            },
        },
        "x-kubernetes-validations": [schema.of_rule(rule) for rule in ImageNetJob.rules],
    }
