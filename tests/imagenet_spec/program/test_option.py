"""What is written of options is what their parser reads."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.program import kinds
from imagenet_spec.program.option import MISSING, Option, Program, option, parser, written
from imagenet_spec.program.programs import FETCH, INDEX, PACK, PROGRAMS
from imagenet_spec.program.sources import ServedFile
from imagenet_spec.program.train import OPTIONS, TRAIN

TEXTS = {
    kinds.amount: st.floats(0, 1e6).map(str),
    kinds.amount_above_zero: st.floats(1e-6, 1e6).map(str),
    kinds.checksum: st.just(f"md5:{'0' * 32}"),
    kinds.class_pattern: st.just("^(cat|dog)[.]"),
    kinds.class_words: st.sampled_from(("n01=tench", "n02=a=b")),
    kinds.colour: st.just("1,-2.5,3"),
    kinds.colour_scale: st.just("1,2.5,3"),
    kinds.colour_shape: st.just("3,28,28"),
    kinds.count: st.integers(0, 10**9).map(str),
    kinds.decay: st.sampled_from(("10,20", "pow2")),
    kinds.devices: st.sampled_from(("", "0", "0,1,2")),
    kinds.edge: st.integers(1, 16384).map(str),
    kinds.endpoint: st.just("https://host"),
    kinds.fraction: st.floats(0, 1).map(str),
    kinds.image_shape: st.just("1,28,28"),
    kinds.image_sizes: st.sampled_from(("", "0:128,6:160")),
    kinds.key: st.just("00ff"),
    kinds.losses: st.sampled_from(("", "ce", "ce,nll_loss")),
    kinds.path: st.sampled_from(("weights", "/data/a b", "-x")),
    kinds.port: st.integers(0, 65535).map(str),
    kinds.positive: st.integers(1, 10**9).map(str),
    kinds.quality: st.integers(1, 100).map(str),
    kinds.switch: st.sampled_from("01"),
    kinds.text: st.sampled_from(("a b", "-x", "--y=1")),
    str: st.sampled_from(("", "mine", "-x")),
}
FILES = st.tuples(
    st.builds(
        ServedFile,
        name=st.just("x.tar"),
        url=st.sampled_from(("http://host/x.tar", "https://host/ü")),
        size_bytes=st.none() | st.integers(0, 10**15),
        query_key=st.none() | st.just("link"),
    )
)


def values(item: Option) -> st.SearchStrategy[Any]:
    if item.choices:
        return st.sampled_from(list(item.choices))
    if item.read is bool:
        return st.booleans()
    if item.name == "http_files":
        return FILES
    # No text and an empty one are written alike.
    one = TEXTS[item.read].map(item.read).filter(lambda value: value != "" or item.default == "")
    return st.lists(one, max_size=3).map(tuple) if item.is_repeated else one


@pytest.mark.parametrize("program", [TRAIN, *PROGRAMS], ids=lambda program: program.name)
@given(data=st.data())
@settings(max_examples=30)
def test_what_is_written_is_read(program: Program, data: st.DataObject) -> None:
    needed = {item.name: values(item) for item in program.options if item.default is MISSING}
    others = {item.name: values(item) for item in program.options if item.name not in needed}
    given = data.draw(st.fixed_dictionaries(needed, optional=others))
    read = vars(parser(program, allow_abbrev=False).parse_args([*written(program.options, given)]))
    assert read == {item.name: given.get(item.name, item.default) for item in program.options}


@pytest.mark.parametrize("program", [TRAIN, *PROGRAMS], ids=lambda program: program.name)
def test_what_is_at_its_default_is_left_out(program: Program) -> None:
    defaults = {item.name: item.default for item in program.options}
    assert list(written(program.options, defaults)) == []


def test_index_and_pack_open_a_source_by_the_same_options() -> None:
    ours = {item.name for item in INDEX.options}
    of_pack = {item.name for item in PACK.options} - {"key", "shard", "threads"}
    assert of_pack <= ours
    assert {item.name for item in FETCH.options} - {"connections"} <= ours


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"lr": 0.25, "compile": False}, ["--compile", "0", "--lr", "0.25"]),
        ({"lr_step_epochs": (), "gpus": (0, 1)}, ["--lr-step-epochs", "", "--gpus", "0,1"]),
        ({"dataset_query_key": "-key"}, ["--dataset-query-key=-key"]),
        ({"ema_decay": None}, []),
    ],
)
def test_arguments(given: dict[str, Any], arguments: list[str]) -> None:
    assert list(written(OPTIONS, given)) == arguments


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "x.tar"}, "ServedFile needs url"),
        ({"name": "x.tar", "adress": "a", "link": ""}, "ServedFile has no adress, link"),
    ],
)
def test_a_group_takes_its_options_alone(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ServedFile(**given)


def test_a_group_is_a_value() -> None:
    file = ServedFile(name="x.tar", url="https://a/x")
    with pytest.raises(AttributeError, match="ServedFile"):
        file.url = "https://b/x"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="ServedFile"):
        del file.url
    other = file.replace(url="https://b/x")
    assert (other.name, other.url, file.url) == (file.name, "https://b/x", "https://a/x")
    assert file == pickle.loads(pickle.dumps(file)) == other.replace(url=file.url) != other
    assert {file: 1}[other.replace(url=file.url)] == 1


def test_a_group_has_the_options_of_its_base() -> None:
    class Signed(ServedFile):
        signature: str = option("none", "of the file")

    assert [item.name for item in Signed.options] == [
        *(item.name for item in ServedFile.options),
        "signature",
    ]
    assert Signed(name="x", url="u", signature="s") != Signed(name="x", url="u")
