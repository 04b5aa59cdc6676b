"""`imagenetctl init` with weights: those of an option, and those in the cache of timm."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.pictures import collection, write_folder
from support.programs import SCRIPTS, VARIABLES, call

PYTHON = Path(f"{sys.prefix}-pytorch") / "bin" / "python"
SAVE = """
import sys, timm
from safetensors.torch import save_file
save_file(timm.create_model("test_resnet", num_classes=1000).state_dict(), sys.argv[1])
"""


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A network of timm in its cache below a home."""
    snapshot = "huggingface/hub/models--timm--test_resnet.r160_in1k/snapshots/1"
    file = tmp_path / snapshot / "model.safetensors"
    file.parent.mkdir(parents=True)
    call(PYTHON, "-c", SAVE, file)
    return file


def init(folder: Path, cache: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Write a manifest for three classes; return the end of the command."""
    write_folder(folder / "photos", collection({"cat": 20, "dog": 20, "fox": 20}))
    command: list[str | Path] = [SCRIPTS / "imagenetctl", "init", "photos", "--gpus", "0", *options]
    variables = {**VARIABLES, "XDG_CACHE_HOME": str(cache)}
    variables = {name: value for name, value in variables.items() if not name.startswith("HF_")}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=variables
    )


def test_weights_in_the_cache_are_trained(tmp_path: Path, weights: Path) -> None:
    done = init(tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "job.yaml"
    manifest = yaml.safe_load(file.read_text())
    assert manifest["spec"]["training"]["framework"] == "PyTorch"
    assert manifest["spec"]["training"]["model"]["network"] == "timm/test_resnet"
    annotations = manifest["metadata"]["annotations"]
    assert (tmp_path / annotations["imagenet.dev/local-weights"]).samefile(weights)
    manifest["spec"]["training"]["epochs"] = 1
    file.write_text(yaml.safe_dump(manifest))
    call(SCRIPTS / "imagenetctl", "run", file, "--workdir", tmp_path / "work")
    (log,) = tmp_path.glob("work/jobs/photos/logs/*worker*.log")
    copied = tmp_path / "work" / "volumes" / "photos-dataset" / "pretrained"
    assert f"weights are those of {copied}" in log.read_text()


def test_weights_of_another_network_are_refused(tmp_path: Path, weights: Path) -> None:
    renamed = weights.rename(tmp_path / "resnet18-0.safetensors")
    done = init(tmp_path, tmp_path / "none", "--pretrained", renamed)
    assert done.returncode == 2
    assert "does not fit resnet" in done.stderr
    assert not (tmp_path / "job.yaml").exists()
