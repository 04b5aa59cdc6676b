"""Where the API server is, and who we are to it: the service account's files, or KUBECONFIG.

In a cluster the kubelet mounts the service account's token and renews the file within the hour, so
it is read again and again. Outside, the current context of a kubeconfig is taken, with what kind
and kubeadm write into one: a certificate or a token. Plugins that fetch credentials are not run.
"""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.errors import ImageNetJobError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = 60.0


class NoConnection(ImageNetJobError):  # noqa: N818 - says what there is not
    """Nothing says where the API server is, or what does cannot be used."""


@dataclass
class Connection:
    """How to reach the API server.

    Attributes:
        server: The URL's beginning.
        authority: The file of the certificates that vouch for the server; None for the system's.
        certificate: The file of our own certificate and key, if that is how we log in.
        token_file: The file of our token, which may be renewed, if that is how we log in.
        token: Our token, if it stands in the kubeconfig itself.
        namespace: Where the kubeconfig's context looks for objects.
    """

    server: str
    authority: Path | None = None
    certificate: Path | None = None
    token_file: Path | None = None
    token: str | None = None
    namespace: str = "default"
    _read_at: float = field(default=-_TOKEN_SECONDS, repr=False)

    def bearer(self) -> str | None:
        """Return the token to send, as it is on disk now; None if a certificate says it all."""
        now = time.monotonic()
        if self.token_file is not None and now - self._read_at >= _TOKEN_SECONDS:
            self.token = self.token_file.read_text(encoding="utf-8").strip()
            self._read_at = now
        return self.token

    def renew(self) -> None:
        """Read the token anew for the next request: the server has refused it."""
        self._read_at = time.monotonic() - _TOKEN_SECONDS

    def tls(self) -> ssl.SSLContext:
        """Return what a client needs for TLS."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context


def find(environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of the cluster that we are in, or of KUBECONFIG.

    Raises:
        NoConnection: Neither is there, or the kubeconfig needs what is not supported.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if host and (SERVICE_ACCOUNT / "token").exists():
        shown = f"[{host}]" if ":" in host else host
        return Connection(
            server=f"https://{shown}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
            authority=SERVICE_ACCOUNT / "ca.crt",
            token_file=SERVICE_ACCOUNT / "token",
        )
    path = _kubeconfig(environment)
    if not path.is_file():
        raise NoConnection(
            f"no API server is known: this is no pod with a service account, and {path} is no "
            "file; set KUBECONFIG to the path of one kubeconfig"
        )
    return from_kubeconfig(path)


def of_context(name: str, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a context of KUBECONFIG, wherever we are.

    Raises:
        NoConnection: There is no such context, or it needs what is not supported.
    """
    return from_kubeconfig(_kubeconfig(environment), name)


def _kubeconfig(environment: Mapping[str, str]) -> Path:
    named = environment.get("KUBECONFIG")
    return Path(named) if named else Path.home() / ".kube" / "config"


def from_kubeconfig(path: Path, name: str | None = None) -> Connection:
    """Return the connection of one of a kubeconfig's contexts.

    Args:
        path: Of the kubeconfig.
        name: The context's; None for the current one.

    Raises:
        NoConnection: It has no such context, or logs in by something else than a certificate or
            a token.
    """
    which = "current context" if name is None else f"context {name!r}"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        _check_name(config, name, path)
        context = _named(config, "contexts", name or config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        # As with kubectl: who is let in without a name need not have one.
        name_of_user = context.get("user")
        user = _named(config, "users", name_of_user)["user"] if name_of_user else {}
        server = str(cluster["server"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise NoConnection(f"{path}: is no kubeconfig with a {which}: {error!r}") from error
    if cluster.get("insecure-skip-tls-verify") or {"exec", "auth-provider"} & user.keys():
        raise NoConnection(
            f"{path}: the {which} skips TLS verification or logs in by a plugin; use one "
            "with a certificate or a token"
        )
    certificate = _content(user, "client-certificate", path)
    key = _content(user, "client-key", path)
    authority = _content(cluster, "certificate-authority", path)
    token_file = user.get("tokenFile")
    return Connection(
        server=server.rstrip("/"),
        authority=None if authority is None else _private_file(authority),
        certificate=_private_file(certificate + b"\n" + key) if certificate and key else None,
        token_file=None if token_file is None else path.parent / token_file,
        token=user.get("token"),
        namespace=context.get("namespace") or "default",
    )


def _check_name(config: dict[str, Any], name: str | None, path: Path) -> None:
    known = [item["name"] for item in config["contexts"]]
    if name is not None and name not in known:
        choices = ", ".join(known)
        raise NoConnection(f"{path}: has no context {name!r}; write one of {choices}")


def _named(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in config[part] if item["name"] == name)
    return found


def _content(fields: dict[str, Any], name: str, path: Path) -> bytes | None:
    """Return what stands in ``NAME-data``, or in the file that ``NAME`` names."""
    if fields.get(f"{name}-data"):
        return base64.b64decode(fields[f"{name}-data"])
    if fields.get(name):
        return path.parent.joinpath(str(fields[name])).read_bytes()
    return None


def _private_file(content: bytes) -> Path:
    """Return a file of ours with this content: Python's TLS takes keys from files alone."""
    handle, name = tempfile.mkstemp(prefix="imagenet-operator-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return Path(name)
