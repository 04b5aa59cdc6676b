"""`kubectl imagenet`: the verbs of imagenetctl, on the cluster of the current context."""

from pathlib import Path

import pytest

from imagenet_operator.cli.main import build_plugin_parser, kubectl_main
from support.client_jobs import UserCluster


def test_a_verb_speaks_of_the_cluster(
    cluster: UserCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_job(phase="Running")
    assert kubectl_main(["list"]) == 0
    out, err = capsys.readouterr()
    assert "digits   Running" in out
    assert "in the namespace 'vision' of the cluster" in err
    assert kubectl_main(["list", "--workdir", str(tmp_path)]) == 0
    assert "in the working directory" in capsys.readouterr().err
    assert kubectl_main(["status", "other"]) == 5


@pytest.mark.parametrize("verb", ["submit", "list", "logs", "wait", "delete", "report"])
def test_its_help_names_it(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_plugin_parser().parse_args([verb, "--help"])
    help_text = capsys.readouterr().out
    assert f"kubectl imagenet {verb}" in help_text
    assert f"imagenetctl {verb}" not in help_text
