"""What a run has come to, read from volumes."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.cli import exit_codes, result
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_spec.events import EpochFinished, Progress, Started, to_line
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status
from support import job_table
from support.sentences import assert_says

DOCS = Path(__file__).parents[3] / "docs" / "running-locally.md"
UID8 = job_table.UID[:8]
TRAINING: dict[str, Any] = {
    "validation": {"images": 180, "top1": 0.97, "top5": 1.0},
    "model": {"symbol": "model-symbol.json", "params": "model-0010.params"},
}
DATASET = {"key": "0123456789abcdef", "classes": 9, "images": {}, "shards": 2, "sealed": True}


def condition(kind: str, reason: str, message: str = "") -> dict[str, str]:
    now = datetime.now(UTC).isoformat()
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


def collected(
    tmp_path: Path,
    *conditions: dict[str, str],
    claim: str = "digits-dataset",
    attempts: tuple[int, ...] = (),
    log: Path | None = None,
    name: str = "defaults",
    **status: Any,
) -> result.Result:
    """The end of a run of which these attempts wrote a result."""
    folder = tmp_path / claim / "jobs" / f"digits-{UID8}" / "attempts"
    for attempt in attempts:
        (folder / f"r{attempt}").mkdir(parents=True)
        (folder / f"r{attempt}" / "result.json").write_text(json.dumps(TRAINING))
    found = Status.model_validate({"conditions": conditions, "dataset": DATASET, **status})
    job = job_table.JOBS[name].model_copy(update={"status": found})
    return result.collect(job, Volumes(tmp_path, {}), 12.3, log)


SUCCEEDED = condition("Succeeded", "AllWorkersSucceeded")


@pytest.mark.parametrize(
    ("training", "checkpoints", "facts"),
    [
        (None, (), ("before training", "run the same command again")),
        ({"attempt": 1}, (), ("before the first checkpoint", "no step is kept")),
        (
            {"attempt": 1},
            ("r0/checkpoints/epoch-0009-batch-00000000", "r1/checkpoints/.epoch-0012-batch-0.tmp"),
            ("checkpoint has 9 finished epochs;", "no later step"),
        ),
        (
            {"attempt": 1},
            (
                "r0/checkpoints/epoch-0001-batch-00000000",
                "r1/checkpoints/epoch-0001-batch-00000001",
            ),
            ("checkpoint has 1 finished epoch and 1 batch;", "no later step"),
        ),
    ],
)
def test_an_interrupted_run_says_what_it_has_kept(
    training: Any, checkpoints: tuple[str, ...], facts: tuple[str, ...], tmp_path: Path
) -> None:
    for folder in checkpoints:
        path = tmp_path / "digits-dataset" / "jobs" / f"digits-{UID8}" / "attempts" / folder
        path.mkdir(parents=True)
    end = collected(tmp_path, training=training)
    assert_says(result.interruption(end), "interrupted", *facts)


def test_an_interrupted_run_says_which_steps_are_lost(tmp_path: Path) -> None:
    attempt = tmp_path / "digits-dataset" / "jobs" / f"digits-{UID8}" / "attempts" / "r1"
    (attempt / "checkpoints" / "epoch-0002-batch-00000000").mkdir(parents=True)
    progress = to_line(Progress(epoch=2, batch=40, images_per_second=9.5), 1767323050.0)
    lines = [progress, json.dumps({"event": "validation"}), "1", '{"event": "prog']
    (attempt / "metrics.jsonl").write_text("\n".join(lines))
    message = result.interruption(collected(tmp_path, training={"attempt": 1}))
    assert_says(message, "2 finished epochs", "batch 40 of epoch 3", "are lost")


def test_the_checkpoint_of_an_interrupted_run_is_recorded(tmp_path: Path) -> None:
    end = collected(tmp_path, training={"attempt": 0})
    assert result.with_checkpoint(end) == end.job
    (end.results / "attempts/r0/checkpoints/epoch-0000-batch-00000003").mkdir(parents=True)
    training = result.with_checkpoint(end).status.training
    assert training is not None
    assert training.checkpoint_epoch == 0


def test_an_interrupted_program_of_the_users_own_finds_its_files(tmp_path: Path) -> None:
    job = ImageNetJob.model_validate(job_table.manifest(training=job_table.OWN_PROGRAM))
    status = Status.model_validate({"training": {"attempt": 1}})
    end = result.collect(
        job.model_copy(update={"status": status}), Volumes(tmp_path, {}), 12.3, None
    )
    folder = tmp_path / "digits-dataset" / "jobs" / f"digits-{UID8}"
    message = result.interruption(end)
    assert "next attempt of your program" in message
    assert str(folder) in message


def test_success_tells_accuracy_paths_and_what_to_type(tmp_path: Path) -> None:
    end = collected(tmp_path, SUCCEEDED, attempts=(0,), training={"attempt": 0})

    model = tmp_path / "digits-dataset" / "jobs" / f"digits-{UID8}" / "attempts" / "r0"
    assert result.as_text(end).splitlines() == [
        "digits succeeded in 12 s",
        "  accuracy  top-1 0.9700, top-5 1.0000 on 180 validation images",
        f"  model     {model}",
        f"  dataset   {tmp_path}/digits-dataset/datasets/0123456789abcdef",
        "  restarts  0",
        f"  try it    imagenetctl predict IMAGE --model {model}",
    ]


@pytest.mark.parametrize(("best", "loss"), [({}, 0.5), ({"epoch": 1, "metric": "top1"}, 0.75)])
def test_the_summary_has_both_losses_and_the_plot(
    tmp_path: Path, best: dict[str, Any], loss: float
) -> None:
    end = collected(tmp_path, SUCCEEDED, attempts=(0, 1), training={"attempt": 1})
    assert end.model is not None
    for attempt, trained in ((0, 0.75), (1, 0.5)):
        events = Started(attempt, 1, 0, 0), EpochFinished(attempt, 1.0, 10.0, loss=trained)
        lines = [to_line(event, 1000.0 + attempt) for event in events]
        log = end.results / "attempts" / f"r{attempt}" / "metrics.jsonl"
        log.write_text("\n".join(lines) + "\n")
    checked = {**TRAINING, "validation": {**TRAINING["validation"], "loss": 0.625}, "best": best}
    (end.model / "result.json").write_text(json.dumps(checked))

    end = collected(tmp_path, SUCCEEDED, training={"attempt": 1})

    picture = end.results / "training.png"
    text = result.as_text(end, picture)
    assert f"  loss      {loss:.4f} training, 0.6250 validation\n" in text
    assert f"  plot      {picture}\n" in text
    assert result.as_json(end)["loss"] == loss
    assert result.as_json(end)["validation"]["loss"] == 0.625


def test_what_the_dataset_lacks_of_its_source_is_one_line(tmp_path: Path) -> None:
    lacking = {**DATASET, "droppedClasses": 1, "skippedImages": 2, "passedOver": {".txt": 3}}
    end = collected(tmp_path, SUCCEEDED, dataset=lacking)

    (left_out,) = (line for line in result.as_text(end).splitlines() if "  left out  " in line)
    assert_says(left_out, "1 class", "too few images", "2 damaged images", "3 other", "(.txt 3)")


def test_how_the_source_was_read_is_said(tmp_path: Path) -> None:
    left_out = {
        rule: {"count": count, "example": "x"}
        for rule, count in (
            ("test split", 1), ("equal copies", 2), ("hidden folders", 1),
            ("files and folders of a test split, not listed", 1),
        )
    }  # fmt: skip
    decision: dict[str, Any] = {"said": "tree: …", "warnings": ["classes …"], "leftOut": left_out}
    decision["codec"] = "opencv, the faster codec …"
    end = collected(tmp_path, SUCCEEDED, dataset={**DATASET, "decision": decision})
    text = result.as_text(end)
    assert "  source    tree: …; classes …\n  codec     opencv, the faster codec …\n" in text
    (line,) = (line for line in text.splitlines() if "  left out  " in line)
    facts = ("1 image (test split)", "2 images (equal copies)", "1 hidden folder,")
    assert_says(line, *facts, "1 file or folder of a test split", "not listed")
    assert result.as_json(end)["dataset"]["decision"] == decision


def test_a_fixed_layout_has_no_line_beside_its_codec(tmp_path: Path) -> None:
    decision = {"codec": "planes, the faster codec …"}
    end = collected(tmp_path, SUCCEEDED, dataset={**DATASET, "decision": decision})
    text = result.as_text(end)
    assert "  codec     planes, the faster codec …\n" in text
    assert "  source " not in text


@pytest.mark.parametrize(("share", "is_said"), [(0.05, False), (0.25, True)])
def test_a_long_wait_for_data_is_one_line(share: float, is_said: bool, tmp_path: Path) -> None:
    wait: dict[str, Any] = {
        "imagesPerSecond": 90.0,
        "networkImagesPerSecond": 120.0,
        "share": share,
    }
    wait |= {"message": "the workers wait; raise spec.training.dataThreads"}
    end = collected(tmp_path, SUCCEEDED, training={"attempt": 0, "dataWait": wait})

    line = "  waiting   the workers wait; raise spec.training.dataThreads\n"
    assert (line in result.as_text(end)) == is_said
    assert result.as_json(end)["dataWait"] == wait


def test_a_reused_dataset_is_said_to_be(tmp_path: Path) -> None:
    end = collected(tmp_path, SUCCEEDED, condition("DatasetReady", "Reused"))

    assert "(dataset 0123456789ab reused)" in result.as_text(end)
    assert result.as_json(end)["dataset"]["reused"] is True


def test_restarts_and_interruptions_are_counted_apart(tmp_path: Path) -> None:
    end = collected(tmp_path, SUCCEEDED, restarts=2, disruptions=1)

    assert "restarts  2, and 1 after interruptions" in result.as_text(end)


def test_the_newest_result_counts_but_none_of_a_later_attempt(tmp_path: Path) -> None:
    """An attempt that finds everything trained exits and may write no result."""
    end = collected(tmp_path, SUCCEEDED, attempts=(0, 1, 3), training={"attempt": 2})

    assert end.model is not None
    assert end.model.name == "r1"


def test_a_success_without_a_result_still_ends_well(tmp_path: Path) -> None:
    """As with --test-io among the extraArgs, where nothing is trained."""
    end = collected(tmp_path, SUCCEEDED, training={"attempt": 0})

    assert end.model is None
    assert "accuracy" not in result.as_text(end)
    assert result.as_json(end)["model"] is None


@pytest.mark.parametrize(
    ("name", "claim", "dataset"),
    [
        ("output on the dataset's claim", "shared", "shared/datasets/0123456789abcdef"),
        ("prepared with its own output", "results", "shared/datasets/imagenet"),
        ("resized", "digits-dataset", "digits-dataset/datasets/0123456789abcdef"),
        ("deletes its volumes", "digits-output", "digits-dataset/datasets/0123456789abcdef"),
    ],
)
def test_results_are_found_on_the_volume_that_was_named(
    tmp_path: Path, name: str, claim: str, dataset: str
) -> None:
    end = collected(
        tmp_path, SUCCEEDED, attempts=(0,), training={"attempt": 0}, name=name, claim=claim
    )

    assert end.model is not None
    assert end.dataset == tmp_path / dataset


def test_a_failure_is_explained_by_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "pod.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    end = collected(tmp_path, condition("Failed", "BackoffLimitExceeded", "no restart"), log=log)

    lines = result.failure_text(end).splitlines()

    assert lines[0] == "digits failed: BackoffLimitExceeded: no restart"
    assert lines[1] == f"the last lines of {log}:"
    assert lines[2:] == [f"  line {number}" for number in range(988, 1000)]


def test_a_line_of_the_log_that_the_failure_repeats_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "pod.log"
    log.write_text("imagenet-index: error: a.tar: no such file\n")
    failed = condition("Failed", "PreparationFailed", "index: a.tar: no such file")
    end = collected(tmp_path, failed, log=log)

    assert result.failure_text(end).splitlines() == [
        "digits failed: PreparationFailed: index: a.tar: no such file",
        f"the log is {log}",
    ]


def test_a_failure_without_a_log_is_one_line(tmp_path: Path) -> None:
    end = collected(tmp_path, condition("Failed", "R", "why"), log=tmp_path / "none.log")

    assert result.failure_text(end) == "digits failed: R: why"


def test_the_last_line_for_scripts_holds_everything(tmp_path: Path) -> None:
    end = collected(
        tmp_path, SUCCEEDED, attempts=(1,), training={"attempt": 1}, restarts=1, disruptions=2
    )

    document = json.loads(json.dumps(result.as_json(end)))

    assert document["outcome"] == "Succeeded"
    assert document["uid"] == job_table.UID
    assert document["model"]["params"] == "model-0010.params"
    assert document["validation"] == TRAINING["validation"]
    counts = (document["attempt"], document["restarts"], document["disruptions"])
    assert counts == (1, 1, 2)
    assert document["reason"] is None


def test_the_link_leads_to_the_newest_model(tmp_path: Path) -> None:
    link = tmp_path / "model"
    for attempts in ((0,), (1,)):
        end = collected(tmp_path, SUCCEEDED, attempts=attempts, training={"attempt": attempts[0]})
        result.link_model(end, link, tmp_path)

    assert link.resolve().name == "r1"
    assert [path.name for path in tmp_path.glob(".*")] == []


def linked(workdir: Path, volumes: Path) -> Path:
    """The link to a model that is on these volumes."""
    link = workdir / "jobs" / "digits" / "model"
    link.parent.mkdir(parents=True, exist_ok=True)
    end = collected(volumes, SUCCEEDED, attempts=(0,), training={"attempt": 0})
    result.link_model(end, link, workdir)
    return link


def test_the_link_moves_with_the_working_directory(tmp_path: Path) -> None:
    linked(tmp_path / "work", tmp_path / "work" / "volumes")

    (tmp_path / "work").rename(tmp_path / "moved")

    model = tmp_path / "moved" / "jobs" / "digits" / "model"
    assert (model / "result.json").is_file()


def test_the_link_to_a_model_elsewhere_holds_wherever_the_working_directory_is(
    tmp_path: Path,
) -> None:
    linked(tmp_path / "work", tmp_path / "elsewhere")

    (tmp_path / "deep").mkdir()
    (tmp_path / "work").rename(tmp_path / "deep" / "work")

    assert (tmp_path / "deep" / "work" / "jobs" / "digits" / "model" / "result.json").is_file()


def test_the_link_leads_to_the_model_from_a_folder_that_is_itself_linked(tmp_path: Path) -> None:
    jobs = tmp_path / "far" / "away" / "jobs"
    jobs.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "jobs").symlink_to(jobs)

    link = linked(tmp_path / "work", tmp_path / "work" / "volumes")

    assert (link / "result.json").is_file()


def test_a_link_that_cannot_be_made_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    in_the_way = tmp_path / "work" / "jobs" / "digits" / "model"
    in_the_way.mkdir(parents=True)

    with pytest.raises(LocalError, match=f"cannot link {in_the_way} to the model: Is a directory"):
        linked(tmp_path / "work", tmp_path / "work" / "volumes")

    assert list(in_the_way.parent.iterdir()) == [in_the_way]


def test_the_fields_for_scripts_are_the_documented_ones(tmp_path: Path) -> None:
    end = collected(tmp_path, SUCCEEDED, attempts=(0,), training={"attempt": 0})
    document = result.as_json(end)

    table = DOCS.read_text().partition("| Field of the result")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE))
    documented = {
        name: cell for names, cell in rows.items() for name in re.findall(r"`(.+?)`", names)
    }
    assert set(documented) == set(document)
    of_mxnet = documented["model"].partition(", with TensorFlow ")[0]
    for name, cell in {"dataset": documented["dataset"], "model": of_mxnet}.items():
        assert set(re.findall(r'"(\w+)"', cell)) == set(document[name])
    assert set(re.findall(r'"(\w+)"', documented["validation"])) >= set(document["validation"])


def test_exit_codes_are_documented() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and name != "HELP"}

    assert {
        int(code) for code in re.findall(r"^\| (\d+) \|", DOCS.read_text(), re.MULTILINE)
    } == codes
