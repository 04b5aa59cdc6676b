"""What the command lines of the preparing programs share, and the cores of a process."""

import os
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads import cores
from imagenet_workloads.commands import index, pack, seal


@pytest.mark.parametrize(
    ("program", "message"),
    [(pack, "required: {missing}"), (seal, "give --data and --key, or --dataset with --verify")],
)
@pytest.mark.parametrize("missing", ["--data", "--key"])
def test_pack_and_seal_must_know_which_dataset(
    program: Any, message: str, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--data": "volume", "--key": "00ff"}
    del given[missing]
    with pytest.raises(SystemExit) as ended:
        program.main([part for pair in given.items() for part in pair])
    assert ended.value.code == 2
    assert message.format(missing=missing) in capsys.readouterr().err


def test_an_option_that_is_not_given_has_the_default_that_help_tells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parsed = index.build_parser().parse_args(["--data", "d"])
    with pytest.raises(SystemExit):
        index.main(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    for name in ("quality", "shards", "min_images_per_class", "seed", "max_skipped_fraction"):
        section = told.split(f" --{name.replace('_', '-')} ")[-1].split(" --")[0]
        assert f"default: {getattr(parsed, name)}" in section, name
    assert (parsed.format, parsed.codec, parsed.resize) == ("RecordIO", "auto", None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "9900000 100000\n"}, 8),
        ({"cpu.max": "rubbish"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_the_smaller_of_affinity_and_limit(
    files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert cores.available_cores(tmp_path) == expected


@pytest.mark.parametrize(
    ("cpus", "limit", "expected"),
    [("3", "max", 3), ("3", "200000", 2), ("16", "max", 8), ("0", "max", 1), ("", "max", 8)],
)
def test_a_pod_uses_no_more_cores_than_it_requests(
    cpus: str, limit: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("IMAGENET_CPUS", cpus)
    (tmp_path / "cpu.max").write_text(f"{limit} 100000\n")
    assert cores.available_cores(tmp_path) == expected


@pytest.mark.parametrize(
    ("pods", "cpus", "limit", "expected"),
    [
        # Neither limit nor request: all cores if it is alone, else a share, at least one core.
        ("", "", "max", 8),
        ("1", "", "max", 8),
        ("2", "", "max", 4),
        ("3", "", "max", 3),
        ("8", "", "max", 1),
        ("20", "", "max", 1),
        ("0", "", "max", 8),
        # A limit or a request is a share already.
        ("8", "6", "max", 6),
        ("8", "", "500000", 5),
        ("8", "6", "200000", 2),
    ],
)
def test_pods_of_one_job_divide_the_cores_of_their_node(
    pods: str,
    cpus: str,
    limit: str,
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("IMAGENET_PODS_ON_NODE", pods)
    monkeypatch.setenv("IMAGENET_CPUS", cpus)
    (tmp_path / "cpu.max").write_text(f"{limit} 100000\n")
    assert cores.available_cores(tmp_path) == expected


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 1500000\n", 1.5),
        # Of cgroup v1, in nanoseconds.
        ("cpu/cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n", 1.5),
        # The root of all groups has no limit.
        ("cpu.stat", "usage_usec 9\n", None),
        ("cpu.stat", "rubbish", None),
        ("other", "", None),
    ],
)
def test_the_time_for_which_a_limit_stops_threads_is_known_where_it_is_said(
    file: str, content: str, expected: float | None, tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    assert cores.throttled_seconds(tmp_path) == expected
