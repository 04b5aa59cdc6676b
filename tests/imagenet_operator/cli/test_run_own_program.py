"""`imagenetctl run` of a user's own program, which is a command on the PATH."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import stand_ins
from support.pod_subset import REPOSITORY
from support.sentences import assert_says
from support.stand_ins import Workplace

Manifest = dict[str, Any]

TRAIN = """#!/bin/sh -e
echo "worker $POD_NAME trains"
test -f "$IMAGENET_DATASET/dataset.json"
folder="$IMAGENET_RESULTS/attempts/r$IMAGENET_ATTEMPT"
mkdir -p "$folder"
printf '%s\\n' "$@" > "$folder/$POD_NAME"
echo '{"model": "of another shape"}' > "$folder/result.json"
"""
FAIL_ONCE = 'if test "$IMAGENET_ATTEMPT" = 0; then echo this is why; exit 7; fi\n'


def own(command: str = "train.R", *arguments: str, **training: Any) -> Manifest:
    container = {"name": "main", "command": [command], "args": list(arguments)}
    workers = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    return stand_ins.job(
        training={"image": "imagenet-workloads-r:0.2.0", "workers": workers, **training}
    )


@pytest.fixture
def on_the_path(workplace: Workplace, tmp_path: Path) -> Path:
    """Where a program of the PATH is written."""
    folder = tmp_path / "programs"
    folder.mkdir()
    workplace.variables["PATH"] = f"{folder}:/usr/bin:/bin"
    return folder / "train.R"


def install(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)


def results(workplace: Workplace, attempt: int) -> dict[str, str]:
    (folder,) = workplace.workdir.glob(f"volumes/*/jobs/digits-*/attempts/r{attempt}")
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".json"}


def test_a_command_on_the_path_trains(workplace: Workplace, on_the_path: Path) -> None:
    install(on_the_path, TRAIN)
    workplace.write(own("train.R", "--data", "$(IMAGENET_DATASET)", "two words"))

    finished = workplace.run()

    assert finished.code == 0, finished.errors
    dataset = next(workplace.workdir.glob("volumes/*/datasets/*"))
    assert results(workplace, 0) == {
        f"digits-r0-worker-{index}": f"--data\n{dataset}\ntwo words\n" for index in range(2)
    }
    (folder,) = workplace.workdir.glob("volumes/*/jobs/digits-*")
    assert f"results   {folder}\n" in finished.output
    assert "model" not in finished.output


def test_it_is_started_again_as_in_a_cluster(workplace: Workplace, on_the_path: Path) -> None:
    first, _, rest = TRAIN.partition("\n")
    install(on_the_path, f"{first}\n{FAIL_ONCE}{rest}")
    workplace.write(own())

    finished = workplace.run("--output", "json")

    assert finished.code == 0, finished.errors
    assert (finished.result["restarts"], finished.result["model"]) == (1, None)
    assert results(workplace, 1).keys() == {f"digits-r1-worker-{index}" for index in range(2)}


def test_a_command_that_is_missing_is_named_before_anything_starts(
    workplace: Workplace, on_the_path: Path
) -> None:
    workplace.write(own())

    finished = workplace.run()

    assert finished.code == 3
    (line,) = finished.errors.splitlines()
    assert_says(line, "spec.training.workers.template", "'train.R'", "PATH", "install it")
    assert workplace.started() == []


def test_tensorflows_workers_of_ones_own_meet_at_different_ports(
    workplace: Workplace, on_the_path: Path
) -> None:
    """TensorFlow's server listens on all addresses of the machine."""
    install(on_the_path, TRAIN.replace("printf '%s\\n' \"$@\"", 'echo "$TF_CONFIG"'))
    training = own(framework="TensorFlow", strategy={"multiWorkerMirrored": {}})
    training["spec"]["dataset"]["preprocessing"] = {"format": "TFRecord"}
    workplace.write(training)

    # Without an environment of TensorFlow: no program of it runs.
    finished = workplace.run()

    assert finished.code == 0, finished.errors
    configs = [json.loads(text)["cluster"]["worker"] for text in results(workplace, 0).values()]
    assert configs[0] == configs[1]
    assert len({address.rpartition(":")[2] for address in configs[0]}) == 2


def test_the_example_of_an_own_program_runs_here_too(workplace: Workplace) -> None:
    manifest = yaml.safe_load((REPOSITORY / "examples" / "own-image.yaml").read_text())
    manifest["metadata"]["name"] = "digits"
    workplace.add_environment("-horovod")
    (main,) = manifest["spec"]["training"]["workers"]["template"]["spec"]["containers"]
    # The stand-in for the rendezvous does not listen, and the example's script would wait for it.
    main["args"] = ["import os; print(os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR'])"]
    workplace.write(manifest)

    finished = workplace.run()

    assert finished.code == 0, finished.errors
    folder = workplace.workdir / "jobs" / "digits" / "logs"
    first, second = ((folder / f"digits-r0-worker-{i}.log").read_text() for i in range(2))
    assert first == second and re.fullmatch(r"127\.[0-9.]+\n", first)
