"""Exec plugins of kubeconfigs: programs that print credentials, as on EKS, GKE and AKS.

The kubernetes package starts the program and reads its answer (ExecCredential). Its loader would
then write a client key to a temporary file, and log an error where the login has to fail. So
`login` takes the answer from here.
"""

import asyncio
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes.config import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

from imagenet_operator.clusters.kubernetes.kubeconfig import Fields, NoConnection

PLUGIN_SECONDS: Final = 60.0
"""How long a plugin may take, unless it can ask at a terminal."""

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_LONGEST_OUTPUT = 1000


class LoginFailed(NoConnection, OSError):  # noqa: N818 - as its base
    """There is no login at the moment; the next attempt may succeed.

    An OSError as well, so that a watch that needs the login tries again.
    """


@dataclass(frozen=True)
class ExecCredential:
    """A plugin's answer.

    Attributes:
        token: A bearer token.
        certificate: A client certificate with its key, in PEM.
        expires: The end of its validity; None if it is valid until the API server refuses it.
    """

    token: str | None
    certificate: bytes | None
    expires: datetime | None


class ExecPlugin:
    """The plugin of a kubeconfig's user.

    Args:
        fields: The user's field ``exec``.
        cluster: The cluster, for plugins with ``provideClusterInfo``.

    Raises:
        NoConnection: A field cannot be used.
    """

    def __init__(self, fields: Fields, cluster: Mapping[str, Any]) -> None:
        self._place = fields.place("command")
        command = fields.text("command")
        if command is None:
            raise NoConnection(f"{self._place}: is missing; write the plugin's name or path")
        if fields.text("apiVersion") not in _VERSIONS:
            raise NoConnection(f"{fields.place('apiVersion')}: write {' or '.join(_VERSIONS)}")
        if fields.text("interactiveMode") == "Always" and not (sys.stdin and sys.stdin.isatty()):
            raise NoConnection(
                f"{fields.place('interactiveMode')}: Always needs a terminal; write IfAvailable"
            )
        # As with kubectl: a path is relative to the kubeconfig, a name is found on the PATH.
        self.command = str(fields.file.parent / command) if "/" in command else command
        self._hint = fields.text("installHint")
        described = {
            "apiVersion": fields.values["apiVersion"],
            "command": self.command,
            "args": list(fields.texts("args")),
            "env": _environment(fields),
            "provideClusterInfo": fields.values.get("provideClusterInfo") is True,
        }
        self._provider = ExecProvider(
            ConfigNode("exec", described), None, ConfigNode("cluster", dict(cluster))
        )
        self._run: Future[Any] | None = None

    async def run(self) -> ExecCredential:
        """Run the plugin, and return its answer.

        Raises:
            LoginFailed: It cannot be run, fails, takes too long, or prints something else.
        """
        if self._run is None or self._run.done():
            self._run = _in_thread(self._provider.run)
        limit = None if sys.stdout.isatty() else PLUGIN_SECONDS
        try:
            status = await asyncio.wait_for(asyncio.wrap_future(self._run), limit)
            return _read(status)
        except TimeoutError as error:
            raise self._failed(f"has not answered in {PLUGIN_SECONDS:g} s") from error
        except FileNotFoundError as error:
            raise self._failed(f"no such program; {self._hint or 'install it'}") from error
        except (ConfigException, OSError, ValueError, TypeError, LookupError) as error:
            said = str(error).strip()[-_LONGEST_OUTPUT:]
            raise self._failed(f"{said}; run it in a terminal to see what it prints") from error

    def _failed(self, why: str) -> LoginFailed:
        return LoginFailed(f"{self._place}: {self.command}: {why}")


def _environment(fields: Fields) -> list[dict[str, str]]:
    listed = fields.values.get("env") or []
    try:
        pairs = [(item["name"], item["value"]) for item in listed]
        valid = all(isinstance(text, str) for pair in pairs for text in pair)
    except (TypeError, LookupError):
        valid = False
    if not valid:
        raise NoConnection(f"{fields.place('env')}: is not a list of variables; {_VARIABLES}")
    return [{"name": name, "value": value} for name, value in pairs]


_VARIABLES = "write objects with name and value, in quotes"


def _in_thread(run: Any) -> Future[Any]:
    """Run a plugin in a thread that does not delay the end of the program.

    The end of a program waits for the threads of `asyncio.to_thread`.
    """
    done: Future[Any] = Future()
    # From now on, a caller that gives up does not cancel it for others.
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(run())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="exec plugin", daemon=True).start()
    return done


def _read(status: Mapping[str, Any]) -> ExecCredential:
    """Return what the field ``status`` of a plugin's answer says.

    Raises:
        ValueError: It holds no login.
    """
    token = _text(status, "token")
    certificate = _text(status, "clientCertificateData")
    key = _text(status, "clientKeyData")
    if (certificate is None) != (key is None):
        raise ValueError("status has only one of clientCertificateData and clientKeyData")
    if token is None and certificate is None:
        raise ValueError("status has neither token nor clientCertificateData")
    expires = _text(status, "expirationTimestamp")
    return ExecCredential(
        token=token,
        certificate=None if certificate is None else f"{certificate}\n{key}".encode(),
        expires=None if expires is None else _time(expires),
    )


def _text(status: Mapping[str, Any], name: str) -> str | None:
    value = status.get(name) or None
    if value is not None and not isinstance(value, str):
        raise ValueError(f"status.{name} is not text")
    return value


def _time(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
