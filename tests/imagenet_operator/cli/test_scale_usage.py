"""What `imagenetctl scale` refuses as wrong usage, and which cluster it uses."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.main import main
from support import stand_ins
from support.scale_program import scale
from support.sentences import assert_says
from support.stand_ins import Workplace


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ([], ("--workers or --gpus is missing", "--workers 1,2,4")),
        (["--gpus", "1,0"], ("'1,0' is not a list", "GPUs", "1,2,4", "0 for CPUs")),
        (["--gpus", "0"], ("--gpus 0: ", "--workers 1,2")),
        (["--gpus", "1,2", "--workers", "1"], ("--gpus and --workers: ", "write one")),
        (["--workers", "0,1"], ("'0,1' is not a list", "workers", "1,2,4")),
        (["--workers", "1,,2"], ("'1,,2' is not a list", "workers")),
        (["--workers", "1", "--strategies", "dist_sync"], ("'dist_sync' is not a strategy",)),
        (["--workers", "1", "--namespace", "a"], ("--namespace: ", "only a cluster")),
        (
            ["--workers", "1", "--context", "a", "--secret", "a=."],
            ("--secret", "options of a run on this machine"),
        ),
    ],
)
def test_bad_options_are_wrong_usage(
    workplace: Workplace, options: list[str], facts: tuple[str, ...]
) -> None:
    finished = scale(workplace, *options)

    assert finished.code == 2
    assert_says(finished.errors, *facts)
    assert "Traceback" not in finished.errors


class Forbidding(BaseHTTPRequestHandler):
    """An API server that forbids everything."""

    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("options", "written", "of_context", "wanted"),
    [
        (["--namespace", "asked"], "written", "current", "asked"),
        ([], "written", "current", "written"),
        ([], "default", "current", "default"),
        ([], None, "current", "current"),
        ([], None, None, "default"),
    ],
)
def test_a_sweep_happens_in_the_namespace_that_is_named_nearest(
    workplace: Workplace,
    options: list[str],
    written: str | None,
    of_context: str | None,
    wanted: str,
) -> None:
    job = stand_ins.job()
    job["metadata"] |= {} if written is None else {"namespace": written}
    workplace.write(job)
    with HTTPServer(("127.0.0.1", 0), Forbidding) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = {"cluster": "here"}
        context |= {} if of_context is None else {"namespace": of_context}
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        config = {
            "contexts": [{"name": "here", "context": context}],
            "clusters": [{"name": "here", "cluster": cluster}],
        }
        (workplace.workdir / "config").write_text(yaml.safe_dump(config))
        workplace.variables = {"KUBECONFIG": str(workplace.workdir / "config")}

        finished = scale(workplace, "--workers", "1", "--context", "here", *options)
        server.shutdown()

    assert f"/namespaces/{wanted}/imagenetjobs/digits-w1-parameter-server: " in finished.errors


def test_an_unknown_context_is_told_which_there_are(workplace: Workplace) -> None:
    config: dict[str, Any] = {"contexts": [{"name": "here", "context": {}}]}
    path = workplace.workdir / "config"
    path.write_text(yaml.safe_dump(config))
    workplace.variables = {"KUBECONFIG": str(path)}

    finished = scale(workplace, "--workers", "1", "--context", "there")

    assert finished.code == 2
    assert "has no context 'there'; write one of here" in finished.errors


DAMAGED: dict[str, tuple[Any, Any]] = {
    "clusters[c].cluster.certificate-authority: ": ({"certificate-authority": "gone.crt"}, {}),
    "clusters[c].cluster.certificate-authority-data: ": ({"certificate-authority-data": "!"}, {}),
    "certificate-authority: FOLDER/config: TLS": ({"certificate-authority": "config"}, {}),
    "clusters[c].cluster: is empty": (None, {}),
    "users[u].user: is empty": ({}, None),
    "users[u].user.client-certificate-data: ": ({}, {"client-certificate-data": "A"}),
    "users[u].user.client-key: is missing": ({}, {"client-certificate": "config"}),
    "users[u].user.tokenFile: FOLDER/none: no such file": ({}, {"tokenFile": "none"}),
    "users[u].user.exec.apiVersion: write client.authentication": (
        {},
        {"exec": {"command": "no-such-plugin"}},
    ),
}


@pytest.mark.parametrize("said", DAMAGED)
def test_a_kubeconfig_that_cannot_be_used_is_one_line(
    workplace: Workplace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
) -> None:
    cluster, user = DAMAGED[said]
    if cluster is not None:
        cluster = {"server": "https://127.0.0.1:1", **cluster}
    config = {
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = workplace.workdir / "config"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))

    options = ("--workers", "1", "--context", "here", "--workdir", str(workplace.workdir))
    assert main(["scale", str(workplace.manifest), *options]) == exit_codes.USAGE

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"imagenetctl: error: {path}: ")
    assert said.replace("FOLDER", str(workplace.workdir)) in line


def test_more_workers_than_a_job_may_have_are_wrong_usage(workplace: Workplace) -> None:
    finished = scale(workplace, "--workers", "1,20000")

    assert finished.code == 2
    assert "must be at most 10000, not 20000" in finished.errors
    assert "left out" not in finished.errors
    assert workplace.started() == []
