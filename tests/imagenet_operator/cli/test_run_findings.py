"""`imagenetctl run` on images with planted copies: it warns once, drops none, and trains."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.planted_copies import planted_tree
from support.pod_subset import REPOSITORY
from support.programs import SCRIPTS, VARIABLES
from support.sentences import assert_says


def run(manifest: Path, workdir: Path) -> list[dict[str, Any]]:
    options = ["--workdir", str(workdir), "--output", "json"]
    command = [str(SCRIPTS / "imagenetctl"), "run", str(manifest), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=VARIABLES)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.costly
def test_the_findings_are_one_warning_of_a_job_that_trains(tmp_path: Path) -> None:
    example = yaml.safe_load((REPOSITORY / "examples" / "digits-single.yaml").read_text())
    del example["spec"]["dataset"]["validation"]
    example["spec"]["dataset"]["source"]["volume"]["path"] = "tree"
    example["spec"]["dataset"]["preprocessing"] = {
        "shards": 2,
        "resize": 28,
        "minImagesPerClass": 1,
    }
    example["spec"]["training"] |= {"epochs": 1, "batchSize": 10}
    planted_tree(tmp_path / "work/volumes/raw/tree")
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(example))

    # The second run reuses the dataset, and says the same.
    for _ in range(2):
        lines = run(manifest, tmp_path / "work")
        warned = [line for line in lines if line.get("reason") == "DatasetFindings"]
        assert len(warned) == 1
        facts = ("2 validation images", "like a training image", "owl has 2 training images")
        assert_says(warned[0]["message"], *facts)
        result = lines[-1]
        assert result["outcome"] == "Succeeded"
        assert result["validation"]["images"] == 8
        assert "; ".join(result["dataset"]["findings"]) == warned[0]["message"]
