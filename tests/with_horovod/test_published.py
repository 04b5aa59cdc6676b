"""Slots of Horovod train from a published dataset in a bucket, with MXNet."""

from pathlib import Path

from support.horovod_cluster import HorovodCluster
from support.published import publish_to
from support.s3_server import serve_s3
from support.tiny_dataset import write_dataset
from support.training_cluster import result

OPTIONS = (
    *("--network", "lenet", "--image-shape", "3,28,28", "--batch-size", "16"),
    *("--num-epochs", "2", "--lr", "0.05"),
)


def test_slots_train_from_a_bucket(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=600, validation=101, shards=3)
    output, cache = tmp_path / "output", tmp_path / "cache"
    (tmp_path / "s3").mkdir()
    with serve_s3(tmp_path / "s3") as server:
        secret = {"IMAGENET_CREDENTIALS": str(server.secret(tmp_path / "secret"))}
        url = publish_to(server, data.folder, "digits")
        where = ["--dataset-url", url, "--dataset-endpoint", server.endpoint]
        where += ["--cache", str(cache), "--output", str(output)]
        members = tmp_path / "members"
        with HorovodCluster(members, [*where, *OPTIONS], environment=secret) as cluster:
            assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    found = result(output)
    assert found["workers"] == 2
    assert found["train"]["images"] == 2 * 600
    assert found["validation"]["images"] == 101
    # Each slot had the records of its own lanes.
    assert sorted(path.name for path in cache.iterdir()) == ["rank-0", "rank-1"]
