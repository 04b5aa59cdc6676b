"""A kubeconfig with an exec plugin, whose tokens the API server accepts, and then no longer."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import yaml

from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import from_kubeconfig
from kind.cluster import Cluster
from kind.kubectl import SECONDS, Kubectl
from support.exec_plugins import Plugin
from support.kubeconfigs import kubeconfig

ACCOUNT = "reader"
# TokenRequests last ten minutes at least, and the plugin runs again before that.
ANSWER = (
    '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
    '"status":{"token":"%s"}}'
)


def test_a_plugin_runs_again_when_its_token_is_refused(
    namespace: Kubectl, cluster: Cluster, tmp_path: Path
) -> None:
    plugin = login(namespace, cluster, tmp_path)
    namespace.create("serviceaccounts", {"metadata": {"name": ACCOUNT}})
    namespace("create", "rolebinding", "reads", "--clusterrole=view", of_account(namespace))
    configmaps = f"/api/v1/namespaces/{namespace.namespace}/configmaps"

    async def requests() -> None:
        async with Client(from_kubeconfig(tmp_path / "config")) as client:
            assert (await client.get(configmaps))["kind"] == "ConfigMapList"
            assert len(plugin.runs) == 1
            assert await refusal(client, "/api/v1/nodes") == f"{subject(namespace)} cannot list"
            # The tokens of the old account are no longer valid.
            namespace.delete("serviceaccounts", ACCOUNT)
            namespace.wait_until("serviceaccounts", lambda accounts: ACCOUNT not in accounts)
            namespace.create("serviceaccounts", {"metadata": {"name": ACCOUNT}})
            # The API server remembers for ten seconds whom a token belongs to.
            async with asyncio.timeout(SECONDS):
                while len(plugin.runs) == 1:
                    await client.get(configmaps)

    asyncio.run(requests())
    assert len(plugin.runs) == 2


def login(namespace: Kubectl, cluster: Cluster, folder: Path) -> Plugin:
    """Write a kubeconfig whose plugin asks the API server for a token of the account."""
    plugin = Plugin(folder)
    kubectl = [namespace.program, f"--kubeconfig={cluster.kubeconfig}"]
    token = [*kubectl, f"--namespace={namespace.namespace}", "create", "token", ACCOUNT]
    plugin.before(f"printf '{ANSWER}' \"$({shlex.join(token)})\" > answer")
    (known,) = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"]
    kubeconfig(folder, known["cluster"], plugin.user)
    return plugin


def subject(namespace: Kubectl) -> str:
    """Return the account's name among all users."""
    return f'User "system:serviceaccount:{namespace.namespace}:{ACCOUNT}"'


def of_account(namespace: Kubectl) -> str:
    """Return the option that binds a role to the account."""
    return f"--serviceaccount={namespace.namespace}:{ACCOUNT}"


async def refusal(client: Client, path: str) -> str:
    """Return whom the API server refuses a list, and what."""
    try:
        await client.get(path)
    except ApiError as error:
        return error.message.partition(": ")[2].partition(" resource")[0]
    raise AssertionError(f"{path} was not refused")
