"""The environment variables of a pod, parsed once.

The operator sets these variables on every pod (names and addresses by the pod's own fields, the
rest as literals); the programs in `commands` read them here and nowhere else. All have defaults,
so that the same programs run without an operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from imagenet_spec import names
from imagenet_spec.names import Role
from imagenet_workloads.errors import InputError


@dataclass(frozen=True)
class Environment:
    """The environment of one pod; `imagenet_spec.names` describes the variables.

    Attributes:
        metrics_port: 0 means that no metrics are served.
        source: read-only; this and the other volumes are None when not mounted.
        cpus: the cores of the pod's CPU limit, else of its request, rounded up; None if it has
            neither.
        pods_on_node: the pods of its Job that share its node at the same time; None if they are not
            known to share one.
        attempt: the N of attempts/rN; None outside training pods.
        completion_index: which completion of an Indexed Job this pod is; None outside such Jobs.
    """

    pod_name: str = ""
    pod_ip: str = ""
    job: str = "local"
    namespace: str = "default"
    job_uid: str = ""
    role: Role | None = None
    metrics_port: int = 0
    termination_log: Path | None = None
    source: Path | None = None
    data: Path | None = None
    output: Path | None = None
    cpus: int | None = None
    pods_on_node: int | None = None
    scratch: Path | None = None
    attempt: int | None = None
    spec_hash: str = ""
    worker_program: str = ""
    completion_index: int | None = None

    @classmethod
    def from_mapping(cls, variables: Mapping[str, str]) -> Self:
        """Read the environment, usually `os.environ`; a variable set to "" counts as unset.

        InputError if a variable's value does not parse; the message names the variable.
        """
        return cls(
            pod_name=variables.get(names.POD_NAME, ""),
            pod_ip=variables.get(names.POD_IP, ""),
            job=variables.get(names.IMAGENET_JOB) or cls.job,
            namespace=variables.get(names.IMAGENET_NAMESPACE) or cls.namespace,
            job_uid=variables.get(names.IMAGENET_JOB_UID, ""),
            role=_role(variables),
            metrics_port=_integer(variables, names.IMAGENET_METRICS_PORT, maximum=65535) or 0,
            termination_log=_path(variables, names.IMAGENET_TERMINATION_LOG),
            source=_path(variables, names.IMAGENET_SOURCE),
            data=_path(variables, names.IMAGENET_DATA),
            output=_path(variables, names.IMAGENET_OUTPUT),
            cpus=_integer(variables, names.IMAGENET_CPUS),
            pods_on_node=_integer(variables, names.IMAGENET_PODS_ON_NODE),
            scratch=_path(variables, names.IMAGENET_SCRATCH),
            attempt=_integer(variables, names.IMAGENET_ATTEMPT),
            spec_hash=variables.get(names.IMAGENET_SPEC_HASH, ""),
            worker_program=variables.get(names.IMAGENET_WORKER_PROGRAM, ""),
            completion_index=_integer(variables, names.JOB_COMPLETION_INDEX),
        )


def _role(variables: Mapping[str, str]) -> Role | None:
    value = variables.get(names.IMAGENET_ROLE)
    if not value:
        return None
    for role in names.ROLES:
        if value == role:
            return role
    raise InputError(f"IMAGENET_ROLE is {value!r}; it must be one of {', '.join(names.ROLES)}")


def _integer(variables: Mapping[str, str], name: str, maximum: int | None = None) -> int | None:
    value = variables.get(name)
    if not value:
        return None
    # int() takes more than digits ("1_0", " 7", "٣"), and a manifest never means those.
    if not (value.isascii() and value.isdigit()):
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least 0")
    number = int(value)
    if maximum is not None and number > maximum:
        raise InputError(f"{name} is {value}; it must be at most {maximum}")
    return number


def _path(variables: Mapping[str, str], name: str) -> Path | None:
    value = variables.get(name)
    return Path(value) if value else None
