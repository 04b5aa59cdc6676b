"""The kinds of object that the operator uses, with their API paths.

The chart's roles grant only `VERBS`. A test compares them, and the tests' API server rejects all
other requests.
"""

from dataclasses import dataclass

from imagenet_operator.api import crd
from imagenet_operator.api.job import GROUP, KIND, VERSION


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        name: The manifest's ``kind``.
        group: The API group, empty for the core's.
        version: The group's version.
        plural: The name in URLs.
        is_namespaced: Whether its objects have a namespace.
    """

    name: str
    group: str
    version: str
    plural: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The manifest's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL's path of a collection, or of one object in it.

        Args:
            namespace: None for all namespaces, or for a kind without them.
            name: None for the collection.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.is_namespaced:
            parts += ["namespaces", namespace]
        parts += [self.plural] if name is None else [self.plural, name]
        return "/" + "/".join(parts)


JOB = Kind(KIND, GROUP, VERSION, crd.PLURAL)
NODE = Kind("Node", "", "v1", "nodes", is_namespaced=False)
POD = Kind("Pod", "", "v1", "pods")
EVENT = Kind("Event", "", "v1", "events")
WORKLOAD = Kind("Workload", "kueue.x-k8s.io", "v1beta2", "workloads")
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases")

CHILDREN = (
    POD,
    Kind("Job", "batch", "v1", "jobs"),
    Kind("Service", "", "v1", "services"),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
)
"""The kinds of a job's children."""

BY_NAME = {kind.name: kind for kind in (JOB, NODE, EVENT, WORKLOAD, LEASE, *CHILDREN)}
"""Every kind by its name."""

_ALL = frozenset({"get", "list", "watch", "create", "delete"})

VERBS = {
    (JOB.group, JOB.plural): frozenset({"get", "list", "watch", "delete"}),
    (JOB.group, f"{JOB.plural}/status"): frozenset({"update"}),
    ("", "pods"): _ALL | {"patch"},
    ("", "pods/log"): frozenset({"get"}),
    ("batch", "jobs"): _ALL | {"patch"},
    ("", "services"): _ALL,
    ("", "persistentvolumeclaims"): _ALL - {"delete"} | {"patch"},
    ("networking.k8s.io", "networkpolicies"): _ALL,
    ("policy", "poddisruptionbudgets"): _ALL,
    ("", "events"): frozenset({"create", "list", "patch"}),
    (WORKLOAD.group, WORKLOAD.plural): frozenset({"get", "list"}),
    ("", "nodes"): frozenset({"list", "watch"}),
    (LEASE.group, LEASE.plural): frozenset({"list", "create", "update"}),
}
"""The requests that the operator sends: (group, resource) → RBAC verbs."""
