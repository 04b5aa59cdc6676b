"""Which environment a cluster is made in, and what it is made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from kind.airgap import build, routes
from kind.cluster import SHARED, configuration
from kind.environment import HERE, Environment, choose, missing


def never() -> bool:
    raise AssertionError("the registry was asked although the choice was made")


@pytest.mark.parametrize(("answers", "chosen"), [(True, "registry"), (False, "airgap")])
def test_the_registry_is_used_where_it_answers(answers: bool, chosen: str) -> None:
    assert choose(None, lambda: answers) == chosen
    assert choose("", lambda: answers) == chosen


@pytest.mark.parametrize("named", ["registry", "airgap"])
def test_a_named_environment_is_taken_unasked(named: str) -> None:
    assert choose(named, never) == named


def test_an_unknown_environment_is_refused_with_what_to_write() -> None:
    with pytest.raises(SystemExit, match="'cloud'; write one of registry, airgap"):
        choose("cloud", never)


def test_only_programs_that_are_missing_are_built() -> None:
    assert missing({"kind": "/usr/bin/kind", "helm": None, "kubectl": None}) == [
        "helm",
        "kubectl",
    ]
    assert missing({"kind": "/k", "helm": "/h", "kubectl": "/c"}) == []


def test_another_process_finds_the_environment_as_it_was() -> None:
    environment = Environment(
        name="airgap",
        programs={"kind": "/parts/kind", "helm": "/parts/helm", "kubectl": "/parts/kubectl"},
        configuration="kind.yaml",
        node_image="node:1",
        build_options="--network host",
    )

    assert Environment.from_json(environment.to_json()) == environment


@pytest.mark.parametrize("file", ["stock.yaml", "airgap/kind.yaml"])
def test_every_node_has_the_shared_folder(file: str) -> None:
    written = yaml.safe_load(configuration((HERE / file).read_text(), Path("/here/shared")))

    assert [node["role"] for node in written["nodes"]] == ["control-plane", "worker", "worker"]
    for node in written["nodes"]:
        assert node["extraMounts"] == [{"hostPath": "/here/shared", "containerPath": SHARED}]


def test_every_node_has_a_route_to_all_others_and_none_to_itself() -> None:
    nodes = [routes.Node(f"node-{i}", f"172.18.0.{i}", f"10.244.{i}.0/24") for i in range(3)]

    assert routes.route_commands(nodes[1], nodes) == [
        ["ip", "route", "replace", "10.244.0.0/24", "via", "172.18.0.0"],
        ["ip", "route", "replace", "10.244.2.0/24", "via", "172.18.0.2"],
    ]
    assert '"subnet": "10.244.1.0/24"' in routes.plugin_configuration(nodes[1])


def test_pip_s_settings_go_along_but_folders_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = ":env:.default-timeout='180'\n:env:.find-links='/opt/wheels'\nglobal.cert='/x.crt'\n"

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, listed, "")

    monkeypatch.setattr(subprocess, "run", pip)

    assert build.pip_configuration().decode().split("\n")[:3] == [
        "[global]",
        "cert = /etc/ssl/certs/ca-certificates.crt",
        "default-timeout = 180",
    ]
    assert b"find-links" not in build.pip_configuration()


def test_only_programs_are_linked_for_people(tmp_path: Path) -> None:
    part, folder = tmp_path / "part", tmp_path / "bin"
    part.mkdir()
    (part / "go.mod").touch()
    (part / "sources").mkdir()
    (part / "helm").touch(mode=0o755)
    build.link(part, folder)
    build.link(part, folder)
    assert [(path.name, path.resolve()) for path in folder.iterdir()] == [("helm", part / "helm")]
