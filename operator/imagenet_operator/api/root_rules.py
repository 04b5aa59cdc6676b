"""The rules of the resource's root, which read both spec and status.

Immutability: fields that determine what is trained cannot change once a job has started. While it
is suspended and has no pods, workers, templates and batch size may change, so that the job can
resume on other machines. `runPolicy` may always change, except `managedBy`, because two controllers
could manage the job.

Size: a status of more members than a new job may have has not been measured (docs/benchmarks.md). A
job that has conditions keeps its size, because an earlier version admitted it: the API server
applies rules also when the operator writes the status.
"""

from __future__ import annotations

from typing import Any, Literal

from imagenet_operator.api.base import Manifest, Rule, TransitionRule
from imagenet_operator.api.strategies import STRATEGIES
from imagenet_operator.api.training import TrainingSpec

_STARTED = "has(oldSelf.status) && has(oldSelf.status.startTime)"
_PAUSED = (
    "has(oldSelf.status.conditions)"
    " && oldSelf.status.conditions.exists(c, c.type == 'Suspended' && c.status == 'True')"
)
_TRAINING = "spec.training"
_STRATEGY = f"{_TRAINING}.strategy"
_CHANGE_WHILE_PAUSED = ("strategy", "batchSize", "workers")

_When = Literal["always", "started", "running", "paused"]
_CONDITIONS: dict[_When, str] = {
    "always": "true",
    "started": _STARTED,
    "running": f"{_STARTED} && !({_PAUSED})",
    "paused": f"{_STARTED} && {_PAUSED}",
}


def _state(job: Any) -> set[_When]:
    if job.status.start_time is None:
        return {"always"}
    paused = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions)
    return {"always", "started", "paused" if paused else "running"}


def _read(manifest: Manifest, path: str) -> Any:
    """Return the value at a path of objects; None if one of them is absent."""
    value: Any = manifest
    for name in path.split("."):
        value = None if value is None else value.get(name)
    return value


def _fixed(
    path: str, when: _When, message: str, guard: str = "", *, is_optional: bool = True
) -> TransitionRule:
    """Return the rule that a field keeps its value.

    Args:
        path: The field, from the root of the manifest.
        when: The state of the job before the update in which the rule holds.
        message: The message of a violation.
        guard: An optional object on the path to the field.
        is_optional: Whether the field itself is optional. Rules are evaluated at every write of a
            status, and a check of existence costs as much as a read.
    """
    new, old = f"self.{path}", f"oldSelf.{path}"
    same = f"{new} == {old}"
    if is_optional:
        same = f"has({new}) == has({old}) && (!has({new}) || {same})"
    absent = f"!has(self.{guard}) || !has(oldSelf.{guard}) || " if guard else ""

    def holds(job: Any, before: Any) -> bool:
        if when not in _state(before):
            return True
        now, then = job.to_manifest(), before.to_manifest()
        if guard and None in (_read(now, guard), _read(then, guard)):
            return True
        return bool(_read(now, path) == _read(then, path))

    return TransitionRule(
        cel=f"!({_CONDITIONS[when]}) || {absent}({same})",
        message=message,
        field=path,
        holds=holds,
    )


def _rules() -> tuple[TransitionRule, ...]:
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
            if name not in _CHANGE_WHILE_PAUSED
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
        *(_kind_stays(kind, never) for kind in STRATEGIES),
    )


def _kind_stays(kind: str, message: str) -> TransitionRule:
    """Return the rule that the strategy stays the same while the job is suspended."""
    path = f"{_STRATEGY}.{kind}"
    return TransitionRule(
        cel=f"!({_CONDITIONS['paused']}) || !has(oldSelf.{path}) || has(self.{path})",
        message=message,
        field=_STRATEGY,
        holds=lambda job, before: (
            "paused" not in _state(before)
            or _read(before.to_manifest(), path) is None
            or _read(job.to_manifest(), path) is not None
        ),
    )


IMMUTABILITY = _rules()

MEMBERS_OF_NEW_JOBS = 5_000
"""Workers and servers together."""

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


SIZE = Rule(
    cel=(
        "(has(self.status) && has(self.status.conditions))"
        f" || {_members_cel('self')} <= {MEMBERS_OF_NEW_JOBS}"
    ),
    message=f"workers and servers must be at most {MEMBERS_OF_NEW_JOBS} together",
    field=_REPLICAS,
    holds=lambda job: bool(job.status.conditions) or _members(job) <= MEMBERS_OF_NEW_JOBS,
    explain=lambda job: (
        f"workers and servers are {_members(job)} together",
        f"write at most {MEMBERS_OF_NEW_JOBS}",
    ),
)
GROWTH = TransitionRule(
    cel=(
        f"{_members_cel('self')} <= {MEMBERS_OF_NEW_JOBS}"
        f" || {_members_cel('self')} <= {_members_cel('oldSelf')}"
    ),
    message=f"workers and servers must not grow beyond {MEMBERS_OF_NEW_JOBS} together",
    field=_REPLICAS,
    holds=lambda job, before: _members(job) <= max(MEMBERS_OF_NEW_JOBS, _members(before)),
)
"""A job that has conditions must not grow beyond the limit either."""
