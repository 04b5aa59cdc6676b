"""What `validate` passes, `imagenet-train` takes: random jobs with random extra arguments."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from imagenet_operator.api import ImageNetJob, validate
from imagenet_operator.api import parse as parse_job
from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.extra_arguments import _READERS
from imagenet_operator.api.program_options import CHOICES, KINDS, PRESETS
from imagenet_operator.manifests import preview
from imagenet_workloads.commands import train
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.train.options.description import refuse_lacking
from support.job_table import KEY
from support.pod_subset import REFERENCE
from support.random_jobs import jobs

VALUES = (
    *("0", "1", "-1", "12", "007", "1.5", ".5", "5.", "1e3", "1e99", "1e999", "-2", "+3", "1_0"),
    *("nan", "inf", "", " 4", "1,2,3", "0,0,0", "-1,2,3", "1,2", "ce", "nll_loss,ce", "mse"),
    *("int8", "float16", "2bit", "none", "imagenet", "cifar10", "zero", "--x", "-", "--", "a b"),
)
USUAL = {
    "amount": ("0", "2.5"),
    "amount_above_zero": ("0.5", "1e3"),
    "colour": ("1,2,3",),
    "colour_scale": ("1,2.5,3",),
    "count": ("0", "12"),
    "losses": ("ce", "nll_loss,ce"),
    "positive": ("1", "007"),
    "switch": ("0", "1"),
    "text": ("a b", "x"),
}
OPTIONS = (*KINDS, *CHOICES)
KNOWN = st.sampled_from(OPTIONS)
NAMES = st.one_of(
    KNOWN,
    # Half of an option is an abbreviation, which the program refuses.
    KNOWN.map(lambda option: option[: len(option) // 2]),
    st.sampled_from(("--help", "-h", "--sed", "--epochs", "seed", "--")),
)


@st.composite
def arguments(draw: st.DrawFn) -> list[str]:
    """Draw extra arguments, most of them well formed."""
    found: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 9)):
            name = draw(KNOWN)
            value = draw(st.sampled_from(CHOICES.get(name) or USUAL[KINDS[name]]))
        else:
            name, value = draw(NAMES), draw(st.sampled_from(VALUES))
        found += draw(st.sampled_from([[f"{name}={value}"], [name, value]]))
    return [text for text in found if text]


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a job's manifest with extra arguments, augmentation and steps of the learning rate."""
    job: ImageNetJob = draw(jobs())
    document = job.model_copy(update={"status": type(job.status)()}).to_manifest()
    training = document["spec"]["training"]
    training["extraArgs"] = draw(arguments())
    training["model"] = {"network": "lenet", "imageShape": [draw(st.sampled_from((1, 3))), 28, 28]}
    steps = draw(st.lists(st.integers(1, 90), max_size=3))
    training["optimizer"] = {
        "stepEpochs": steps if draw(st.integers(0, 9)) == 0 else sorted(set(steps))
    }
    changes = {
        "random_crop": True,
        "random_resized_crop": True,
        "brightness": 0.4,
        "max_random_aspect_ratio": 1.25,
        "min_random_area": 0.5,
        "pad_size": 2,
    }
    chosen = draw(st.sets(st.sampled_from(sorted(changes)), max_size=2))
    training["augmentation"] = {
        str(Augmentation.model_fields[name].alias): changes[name] for name in chosen
    }
    return document


def worker_arguments(job: ImageNetJob) -> list[str]:
    """Return what `imagenet-train` gets in the last worker, as the kubelet hands it over."""
    built = preview.everything(job, status=preview.placeholder_status(job, KEY))
    pods = [item for item in built if item["kind"] == "Pod"]
    container = pods[-1]["spec"]["containers"][0]
    variables = {item["name"]: item.get("value", "10.0.0.1") for item in container["env"]}
    expanded = [
        REFERENCE.sub(lambda match: variables[match[1]], text) for text in container["args"]
    ]
    return (
        expanded[expanded.index("imagenet-train") + 1 :]
        if "imagenet-train" in expanded
        else expanded
    )


@given(document=manifests())
@settings(max_examples=300)
def test_the_program_takes_what_validate_passes(document: dict[str, Any]) -> None:
    # Only the program in a user's image knows all of its options.
    assume(not validate(document) and "image" not in document["spec"]["training"])
    given_to_it = worker_arguments(parse_job(document))
    try:
        refuse_lacking(train.parse(given_to_it), FRAMEWORKS)
    except SystemExit:
        pytest.fail(f"imagenet-train refuses {given_to_it}")


def test_every_kind_of_value_has_a_reader() -> None:
    assert set(KINDS.values()) <= _READERS.keys()


@pytest.mark.parametrize("option", PRESETS)
def test_what_a_preset_sets_is_read_from_the_program(option: str) -> None:
    options = train.parse([option])
    for name, value in PRESETS[option].items():
        if name in Augmentation.model_fields:
            group = "data" if name in ("pad_size", "fill_value") else "augmentation"
            assert getattr(getattr(options, group), name) == value
