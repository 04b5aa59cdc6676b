"""The arithmetic of benchmarks/fidelity.py, and the trainings that it would run."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from imagenet_spec.validate import parse, validate

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "fidelity.py"


@pytest.fixture(scope="module")
def fidelity() -> ModuleType:
    specification = importlib.util.spec_from_file_location("fidelity", PROGRAM)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["fidelity"] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("single", "other", "difference", "error", "agrees"),
    [
        # Standard deviations of 0.02 and 0.01, of means of 4 and of 1 pair.
        ((0.94, 0.94, 0.98, 0.98), (0.96, 0.96), 0.0, 0.011547, True),
        ((0.90, 0.92), (0.93, 0.95), 0.03, 0.014142, False),
        ((0.90, 0.92), (0.92, 0.94), 0.02, 0.014142, True),
        ((0.90, 0.92), (0.87, 0.89), -0.03, 0.014142, False),
        ((0.7, 0.7, 0.7), (0.7, 0.7), 0.0, 0.0, True),
        ((0.7, 0.7), (0.71, 0.71), 0.01, 0.0, False),
    ],
)
def test_means_are_compared_by_their_standard_errors(
    fidelity: ModuleType,
    single: tuple[float, ...],
    other: tuple[float, ...],
    difference: float,
    error: float,
    agrees: bool,
) -> None:
    found = fidelity.compare(fidelity.Series("single", single), fidelity.Series("x", other))
    assert found.difference == pytest.approx(difference, abs=1e-9)
    assert found.error == pytest.approx(error, abs=1e-6)
    assert found.agrees is agrees


def test_every_training_would_run_and_has_a_name_of_its_own(fidelity: ModuleType) -> None:
    names = (fidelity.SINGLE, *fidelity.OTHERS)
    points = [fidelity.point(name, seed) for name in names for seed in (0, 1)]
    assert len({item.name for item in points}) == len(points)
    for item in points:
        assert validate(item.manifest) == []
        training = parse(item.manifest).spec.training
        assert training.extra_args[0] == "--seed"
        assert (training.batch_size, training.epochs) == (64, 10)
        assert training.workers.replicas == item.workers


def test_mirrored_has_two_devices_to_copy_the_network_onto(fidelity: ModuleType) -> None:
    manifests = {name: fidelity.point(name, 0).manifest for name in fidelity.OTHERS}
    templates = {
        name: manifest["spec"]["training"]["workers"].get("template")
        for name, manifest in manifests.items()
    }
    template = templates.pop(fidelity.MIRRORED)
    assert set(templates.values()) == {None}
    ((variable,),) = (container["env"] for container in template["spec"]["containers"])
    assert variable["name"] == "PYTHONPATH"
    cut = Path(variable["value"]) / "sitecustomize.py"
    assert f"DEVICES = {fidelity.SAID_OF_DEVICES.split()[2]}\n" in cut.read_text()


def test_a_mirrored_training_on_one_device_is_not_reported(
    fidelity: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity, "WORKDIR", tmp_path)
    done = fidelity.point(fidelity.MIRRORED, 0)
    log = tmp_path / "jobs" / done.name / "logs" / f"{done.name}-r0-worker-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("two_devices: TensorFlow has 2 devices\n")
    fidelity.check_that_it_had_two_devices(done)
    log.write_text("rank 0 of 1\n")
    with pytest.raises(SystemExit, match="had one device"):
        fidelity.check_that_it_had_two_devices(done)


def test_the_page_has_a_line_for_each_and_says_who_is_outside(fidelity: ModuleType) -> None:
    single = fidelity.Series("single", (0.90, 0.92))
    others = [
        fidelity.Series("near", (0.90, 0.92)),
        fidelity.Series("far", (0.97, 0.98)),
        fidelity.Series(fidelity.ASYNCHRONOUS, (0.5, 0.6)),
    ]
    page = fidelity.report(single, [fidelity.compare(single, item) for item in others], "make it")
    assert "```\nmake it\n```" in page
    assert "| single | 2 | 0.9100 | 0.0100 | | | |" in page
    assert "| near | 2 | 0.9100 | 0.0100 | +0.0000 | 0.0283 | within |" in page
    assert "| far | 2 | 0.9750 | 0.0050 | +0.0650 | 0.0224 | **outside** |" in page
    assert "| outside, as expected |" in page
    assert "| far | 0.9700, 0.9800 |" in page


def test_a_new_page_keeps_the_section_that_another_command_writes(fidelity: ModuleType) -> None:
    section = f"\n{fidelity.OTHER_SECTION}\nmeasured elsewhere\n"
    assert fidelity.with_other_section("new\n", f"old\n{section}") == f"new\n{section}"
    assert fidelity.with_other_section("new\n", "old\n") == "new\n"
    assert f"\n{fidelity.OTHER_SECTION}\n" in fidelity.PAGE.read_text()
