"""What `validate` passes, `imagenet-train` takes: random jobs with random extra arguments."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from imagenet_operator.manifests import preview
from imagenet_spec.program import kinds
from imagenet_spec.program.train import OPTIONS
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.validate import parse as parse_job
from imagenet_spec.validate import validate
from imagenet_workloads.commands import train
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.train.description import refuse_lacking
from support.job_table import KEY
from support.pod_subset import REFERENCE
from support.random_jobs import jobs

VALUES = (
    *("0", "1", "-1", "12", "007", "1.5", ".5", "5.", "1e3", "1e99", "1e999", "-2", "+3", "1_0"),
    *("nan", "inf", "", " 4", "1,2,3", "0,0,0", "-1,2,3", "1,2", "ce", "nll_loss,ce", "mse"),
    *("int8", "float16", "2bit", "none", "imagenet", "cifar10", "zero", "--x", "-", "--", "a b"),
)
USUAL = {
    kinds.amount: ("0", "2.5"),
    kinds.amount_above_zero: ("0.5", "1e3"),
    kinds.colour: ("1,2,3",),
    kinds.colour_scale: ("1,2.5,3",),
    kinds.count: ("0", "12"),
    kinds.losses: ("ce", "nll_loss,ce"),
    kinds.positive: ("1", "007"),
    kinds.switch: ("0", "1"),
    kinds.text: ("a b", "x"),
}
FREE = {name: item for item in OPTIONS if not item.field for name in (item.flag, *item.aliases)}
"""The options that no field sets."""

KNOWN = st.sampled_from(sorted(FREE))
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
            value = str(draw(st.sampled_from(FREE[name].choices or USUAL[FREE[name].read])))
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


@pytest.mark.costly
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
