"""The kinds of object that the operator touches: where the API server keeps each of them.

The chart's roles grant `VERBS` and nothing else; a test compares the two, and the tests' API server
refuses whatever is not among them.
"""

from dataclasses import dataclass

from imagenet_operator.api import crd
from imagenet_operator.api.job import GROUP, KIND, VERSION


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        name: As in a manifest's ``kind``.
        group: The API group, empty for the core's.
        version: The group's version.
        plural: As in a URL.
        is_namespaced: Whether its objects live in namespaces.
    """

    name: str
    group: str
    version: str
    plural: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in a manifest's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL's path of a collection, or of one object in it.

        Args:
            namespace: None for all of them, or for a kind that has none.
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

CHILDREN = (
    POD,
    Kind("Job", "batch", "v1", "jobs"),
    Kind("Service", "", "v1", "services"),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
)
"""What a job may own."""

BY_NAME = {kind.name: kind for kind in (JOB, NODE, EVENT, *CHILDREN)}
"""Every kind, by the name that a manifest writes."""

_ALL = frozenset({"get", "list", "watch", "create", "delete"})

VERBS = {
    (JOB.group, JOB.plural): frozenset({"get", "list", "watch", "delete"}),
    (JOB.group, f"{JOB.plural}/status"): frozenset({"update"}),
    ("", "pods"): _ALL | {"patch"},
    ("batch", "jobs"): _ALL | {"patch"},
    ("", "services"): _ALL,
    ("", "persistentvolumeclaims"): _ALL - {"delete"} | {"patch"},
    ("networking.k8s.io", "networkpolicies"): _ALL,
    ("policy", "poddisruptionbudgets"): _ALL,
    ("", "events"): frozenset({"create"}),
    ("", "nodes"): frozenset({"list", "watch"}),
}
"""What the operator asks the API server for: (group, resource) → verbs, as RBAC calls them."""
