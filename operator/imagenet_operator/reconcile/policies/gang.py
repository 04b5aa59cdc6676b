"""Gang: all members of an attempt get nodes, or none keeps one.

Timeout (the default): if not all members are bound in scheduleTimeoutSeconds, or in waitSeconds of
a job with `workers.minReplicas` (`elastic`), the attempt is withdrawn, uncharged. The next one
starts after a jittered wait, so that two half-placed jobs cannot block each other permanently. No
time counts while another controller, such as a queue, holds a member back.

Wait: a scheduling gate holds the pods back until all of them fit, and is then lifted for all at
once. From then on the timeout holds too, because the fit is an estimate. Until then there is no
timeout, unless the next attempt may have fewer workers.

The fit is first fit, largest first, by requests and taints. A cordoned node counts as tainted, as
for the scheduler. Affinities and node selectors are ignored, so the estimate may allow what the
scheduler does not place: the timeout covers that. It may also deny what a better packing allows:
then the gang waits for more room. So a pod that may use several nodes takes one that few others may
use.

An attempt whose creation was cut off (the operator died, a quota was exceeded) is withdrawn in the
same way, never completed: a missing pod may have existed, and may still run under its name on a
node that cannot be reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile.policies.members import TERMINAL
from imagenet_operator.reconcile.types import (
    Capacity,
    Charge,
    End,
    Manifest,
    MemberPod,
    Patch,
    Phase,
    Room,
    Taint,
    Toleration,
)
from imagenet_spec.resource.quantities import parse
from imagenet_spec.resource.status import MemberStatus, TrainingStatus

Amounts = Mapping[str, Fraction]
"""Resource name → amount in base units."""

CUT_OFF = End("CreationCutOff", "not all pods were created; trying again later", Charge.WITHDRAWAL)
"""The end of an attempt that is not recorded in the status and lacks pods."""

OVER_QUOTA: Final = "QuotaExceeded"
"""The reason of an attempt of which a ResourceQuota did not admit all pods, of a job that may have
fewer workers."""

TIMED_OUT: Final = "GangTimedOut"
"""The reason of an attempt whose members were not all bound in time."""

_PODS: Final = "pods"
"""The resource of which every pod takes one, if the node reports it."""

_GIBIBYTE: Final = 2**30

_KEEPS_PODS_OUT: Final = frozenset({"NoSchedule", "NoExecute"})

_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclass(frozen=True)
class Limit:
    """How long an attempt may take until all of its members are bound.

    The time counts from the moment that the scheduler may bind them; if the next attempt
    `can_shrink`, from the start of the attempt, also while gates hold the pods back.
    """

    seconds: int
    can_shrink: bool = False


def missing(seen: Mapping[str, MemberPod], free: Capacity | None) -> str | None:
    """Return what the gang waits for before its gates are lifted; None if they can be lifted.

    Once one gate is lifted the others follow: a reconcile was cut off. If free capacity is not
    known, the gates are lifted as soon as all pods exist.
    """
    gated = _gated(seen)
    is_begun = len(gated) < len(seen)
    if is_begun or free is None:
        return None
    return shortage([Demand(item.name, item.requests, item.tolerations) for item in gated], free)


def lift_gates(seen: Mapping[str, MemberPod]) -> tuple[Patch, ...]:
    """Return the patches that lift the gates of all members."""
    patches = []
    for member in _gated(seen):
        kept = [{"name": name} for name in member.gates if name != SCHEDULING_GATE]
        merge = {"spec": {"schedulingGates": kept}}
        patches.append(Patch("Pod", member.name, member.uid, merge))
    return tuple(patches)


def is_held_back(seen: Mapping[str, MemberPod]) -> bool:
    """Whether the scheduler cannot place the whole attempt yet."""
    return any(member.gates for member in seen.values())


def is_held_by_another(seen: Iterable[MemberPod]) -> bool:
    """Whether another controller, such as a queue, holds a member back."""
    return any(member.foreign_gates for member in seen)


def is_bound(members: Sequence[MemberStatus], seen: Mapping[str, MemberPod]) -> bool:
    """Whether every member has a node, or had one."""
    return all(
        member.phase in TERMINAL
        or (member.name in seen and seen[member.name].phase is not Phase.PENDING)
        for member in members
    )


def deadline(training: TrainingStatus, limit: Limit) -> datetime | None:
    """Return when the attempt is withdrawn unless it is bound before; None if it is bound."""
    since = training.schedulable_time
    if since is None and limit.can_shrink:
        since = training.start_time
    if since is None or training.bound_time is not None:
        return None
    return since + timedelta(seconds=limit.seconds)


def verdict(training: TrainingStatus, limit: Limit, now: datetime) -> End | None:
    """Return the end of an attempt that was not bound in time; None otherwise."""
    end = deadline(training, limit)
    if end is None or now < end:
        return None
    then = "the next attempt may have fewer workers" if limit.can_shrink else "trying again later"
    message = f"not all members were bound to nodes in {limit.seconds} s; {then}"
    return End(TIMED_OUT, message, Charge.WITHDRAWAL)


def _gated(seen: Mapping[str, MemberPod]) -> list[MemberPod]:
    return [member for member in seen.values() if SCHEDULING_GATE in member.gates]


@dataclass(frozen=True)
class Demand:
    """The room that a pod needs, whether it exists or not."""

    name: str
    requests: Amounts
    tolerations: tuple[Toleration, ...]


def shortage(members: Sequence[Demand], free: Capacity) -> str | None:
    """Return the first member that has no room, and why; None if all fit at once."""
    rooms = Rooms(free)
    # The requested resources, the scarcest for the demand first.
    demand: dict[str, Fraction] = {}
    for member in members:
        _add(demand, member.requests)
    total = {
        resource: sum((room.free.get(resource, Fraction(0)) for room in free.values()), Fraction(0))
        for resource in demand
    }
    scarce = sorted(
        (resource for resource in demand if demand[resource] > 0),
        key=lambda resource: (total[resource] / demand[resource], resource),
    )

    def size(member: Demand) -> tuple[Fraction, ...]:
        return tuple(member.requests.get(resource, Fraction(0)) for resource in scarce)

    for member in sorted(members, key=size, reverse=True):
        if not rooms.put(member.requests, member.tolerations):
            asked = {name: member.requests[name] for name in scarce if name in member.requests}
            return rooms.unschedulable(member.name, asked, member.tolerations)
    return None


class Rooms:
    """The nodes while pods are placed on them, one after the other."""

    def __init__(self, free: Capacity) -> None:
        self._left = {node: dict(room.free) for node, room in free.items()}
        self._taints = {node: room.taints for node, room in free.items()}
        # Nodes that few pods may use come first, so that the open ones remain for others.
        self._order = sorted(self._left, key=lambda node: (-len(self._taints[node]), node))

    def put(self, requests: Amounts, tolerations: Sequence[Toleration]) -> bool:
        """Place a pod on the first node with room for it; return whether there is one."""
        for node in self._order:
            tolerated = untolerated(self._taints[node], tolerations) is None
            if tolerated and self._lacking(node, requests) is None:
                self.put_on(node, requests)
                return True
        return False

    def put_on(self, node: str, requests: Amounts) -> None:
        """Place a pod on a node, even beyond its capacity; an unknown node is ignored."""
        left = self._left.get(node, {})
        for resource, amount in {_PODS: Fraction(1), **requests}.items():
            if resource in left:
                left[resource] -= amount

    def left(self) -> Capacity:
        return {node: Room(amounts, self._taints[node]) for node, amounts in self._left.items()}

    def unschedulable(self, name: str, requests: Amounts, tolerations: Sequence[Toleration]) -> str:
        """Return why no node has room for a pod: each reason with its number of nodes."""
        if not self._order:
            return f"there is no node for {name}"
        reasons = Counter(self._reason(node, requests, tolerations) for node in self._order)
        listed = ", ".join(f"{count} with {reason}" for reason, count in reasons.most_common())
        return f"0 of {len(self._order)} nodes have room for {name}: {listed}"

    def _reason(self, node: str, requests: Amounts, tolerations: Sequence[Toleration]) -> str:
        if (taint := untolerated(self._taints[node], tolerations)) is not None:
            return f"the taint {taint}"
        lacking = self._lacking(node, requests)
        if lacking is None or lacking == _PODS:
            return "no room for another pod"
        amount = requests[lacking]
        # Only bytes reach a gibibyte.
        is_bytes = amount >= _GIBIBYTE
        words = f"{float(amount / _GIBIBYTE):g}Gi" if is_bytes else f"{float(amount):g}"
        return f"less than {words} {lacking} free"

    def _lacking(self, node: str, requests: Amounts) -> str | None:
        """The first resource of which a node has too little left."""
        left = self._left[node]
        if left.get(_PODS, Fraction(1)) < 1:
            return _PODS
        for resource, amount in requests.items():
            if left.get(resource, Fraction(0)) < amount:
                return resource
        return None


def demand_of(pod: Manifest) -> Demand:
    """Return the room that a pod's manifest needs."""
    spec = pod["spec"]
    return Demand(pod["metadata"]["name"], requests(spec), tolerations_of(spec))


def requests(spec: Manifest) -> dict[str, Fraction]:
    """Return the effective requests of a pod, as the scheduler counts them.

    A limit implies a request. An init container runs before the containers, so it counts only if
    it requests more than their sum. A native sidecar runs beside them, and beside the init
    containers after it. Requests of the whole pod take the place of those of its containers.
    """
    total: dict[str, Fraction] = {}
    for container in spec["containers"]:
        _add(total, _asked(container))
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        beside = dict(sidecars)
        _add(beside, _asked(container))
        if container.get("restartPolicy") == "Always":
            sidecars = beside
        for resource, amount in beside.items():
            peak[resource] = max(peak.get(resource, Fraction(0)), amount)
    _add(total, sidecars)
    for resource, amount in peak.items():
        total[resource] = max(total.get(resource, Fraction(0)), amount)
    whole = spec.get("resources") or {}
    # The API server derives a request from the limit only if no container has one.
    total = {**_amounts(whole.get("limits")), **total, **_amounts(whole.get("requests"))}
    _add(total, _amounts(spec.get("overhead")))
    return total


def _asked(container: Manifest) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(resources: Mapping[str, str] | None) -> dict[str, Fraction]:
    return {name: parse(amount) for name, amount in (resources or {}).items()}


def _add(total: dict[str, Fraction], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, Fraction(0)) + amount


def taints_of(spec: Manifest) -> tuple[Taint, ...]:
    """Return the taints that keep pods off a node."""
    found = [
        Taint(taint["key"], taint["effect"], taint.get("value") or "")
        for taint in spec.get("taints") or ()
        if taint["effect"] in _KEEPS_PODS_OUT
    ]
    if spec.get("unschedulable") and _UNSCHEDULABLE not in found:
        found.append(_UNSCHEDULABLE)
    return tuple(found)


def tolerations_of(spec: Manifest) -> tuple[Toleration, ...]:
    """Return what a pod tolerates."""
    return tuple(
        Toleration(
            key=item.get("key") or "",
            operator=item.get("operator") or "Equal",
            value=item.get("value") or "",
            effect=item.get("effect") or "",
        )
        for item in spec.get("tolerations") or ()
    )


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod out; None if it tolerates all of them."""
    found = tuple(tolerations)
    return next(
        (taint for taint in taints if not any(_tolerates(item, taint) for item in found)), None
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    # Newer operators compare numbers. They count as tolerating: a gang whose gates are lifted too
    # early is withdrawn by its timeout; one whose gates stay would never start.
    return toleration.operator != "Equal" or toleration.value == taint.value
