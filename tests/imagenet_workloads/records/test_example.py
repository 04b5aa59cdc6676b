"""tf.train.Example as we encode it, against an independent decoder."""

from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.records import example, tfrecord
from imagenet_workloads.records.format import Box, StoredImage
from support.stored_images import stored_image
from support.tfrecord import features

edges = st.floats(0, 1, width=32)
names = st.text(st.characters(codec="utf-8"), max_size=200)
images = st.builds(
    StoredImage,
    key=st.integers(0, 2**32),
    label=st.integers(0, 30_000),
    class_name=names,
    class_words=names,
    name=st.binary(max_size=200),
    height=st.integers(1, 65_500),
    width=st.integers(1, 65_500),
    # Around the lengths at which varints grow by a byte.
    boxes=st.lists(st.builds(Box, edges, edges, edges, edges), max_size=20).map(tuple),
    jpeg=st.one_of(st.binary(max_size=300), st.integers(16_000, 16_500).map(bytes)),
)


def encode(image: StoredImage) -> bytes:
    return b"".join(example.encode(image))


def test_the_features_are_those_of_imagenets_converters() -> None:
    assert features(encode(stored_image(b"\xff\xd8jpeg", key=7, label=0))) == {
        "image/channels": [3],
        "image/class/label": [1],
        "image/class/synset": [b"n01440764"],
        "image/class/text": [b"tench"],
        "image/colorspace": [b"RGB"],
        "image/encoded": [b"\xff\xd8jpeg"],
        "image/filename": [b"n01440764_10026.JPEG"],
        "image/format": [b"JPEG"],
        "image/height": [375],
        "image/width": [500],
    }


@given(image=images)
def test_any_image_is_read_back(image: StoredImage) -> None:
    found = features(encode(image))
    assert list(found) == sorted(found)
    assert found["image/encoded"] == [image.jpeg]
    assert found["image/class/label"] == [image.label + 1]
    assert found["image/class/synset"] == [image.class_name.encode()]
    assert found["image/class/text"] == [image.class_words.encode()]
    assert found["image/filename"] == [image.name]
    for name in ("xmin", "ymin", "xmax", "ymax"):
        written = [getattr(box, name) for box in image.boxes]
        assert found.get(f"image/object/bbox/{name}", []) == written
    labels = [image.label + 1] * len(image.boxes)
    assert found.get("image/object/bbox/label", []) == labels
    assert (found["image/height"], found["image/width"]) == ([image.height], [image.width])


@given(image=images)
def test_the_jpeg_is_a_piece_of_its_own(image: StoredImage) -> None:
    assert any(piece is image.jpeg for piece in example.encode(image))


@given(label=st.integers(0, 21_840), size=st.integers(1, 10**6), edge=st.integers(1, 65_500))
def test_imagenets_names_stay_within_the_estimate(label: int, size: int, edge: int) -> None:
    image = stored_image(bytes(size), label=label, height=edge, width=edge)
    record = tfrecord.encode(example.encode(image))
    assert 300 < sum(map(len, record)) - size <= tfrecord.FORMAT.overhead
