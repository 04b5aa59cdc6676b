"""Random valid jobs, beside those of `job_table`."""

from hypothesis import strategies as st

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.frameworks import with_strategy
from support.job_table import BUCKET, LABELS, PREPARED, SYNTHETIC, VOLUME, Manifest, manifest, read


def _strategies(gpus: int) -> st.SearchStrategy[Manifest]:
    """Return the strategies that workers with so many GPUs may have."""
    stores = st.sampled_from(["dist_sync", "dist_device_sync", "dist_async"])
    servers = st.integers(1, 3).map(lambda count: {"replicas": count})
    slots = [count for count in (1, 2, 3) if gpus % count == 0]
    return st.one_of(
        st.builds(
            lambda store, some: {"parameterServer": {"kvStore": store, "servers": some}},
            stores,
            servers,
        ),
        st.sampled_from(["local", "device", *(["nccl"] if gpus else [])]).map(
            lambda store: {"single": {"kvStore": store}}
        ),
        st.sampled_from(slots).map(lambda count: {"horovod": {"slotsPerWorker": count}}),
        st.sampled_from([{"horovod": {}}, {"mirrored": {}}, {"multiWorkerMirrored": {}}]),
        st.sampled_from([{}, {"processesPerWorker": gpus or 2}]).map(
            lambda fields: {"distributedDataParallel": fields}
        ),
    )


_MODES = [["ReadWriteMany"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]]
_VOLUMES = st.just({"claimName": "shared"}) | st.sampled_from(_MODES).map(
    lambda chosen: {"size": "20Gi", "accessModes": chosen}
)


@st.composite
def _datasets(draw: st.DrawFn) -> Manifest:
    source = draw(st.sampled_from([VOLUME, SYNTHETIC, PREPARED]))
    dataset: Manifest = {"source": source, "volume": None}
    is_resized = source is PREPARED and draw(st.booleans())
    if source is not PREPARED or is_resized:
        dataset["volume"] = draw(_VOLUMES)
        dataset["preprocessing"] = {"parallelism": draw(st.integers(1, 12))}
    if is_resized:
        dataset["preprocessing"]["resize"] = 256
    if source is VOLUME and draw(st.booleans()):
        dataset["validation"] = LABELS
    if draw(st.booleans()):
        dataset["publish"] = {"s3": BUCKET}
    return dataset


@st.composite
def jobs(draw: st.DrawFn) -> ImageNetJob:
    """Draw a valid job whose images are listed."""
    dataset = draw(_datasets())
    gpus = draw(st.integers(0, 3))
    strategy = draw(_strategies(gpus))
    (kind,) = strategy
    replicas = 1 if kind in ("single", "mirrored") else draw(st.integers(1, 4))
    framework = draw(st.sampled_from(sorted(with_strategy(kind))))
    formats = FRAMEWORKS[framework].formats
    dataset.setdefault("preprocessing", {})["format"] = draw(st.sampled_from(formats))
    if framework == "PyTorch" and kind == "single":
        gpus, strategy = min(gpus, 1), {"single": {}}
    processes = {"slotsPerWorker", "processesPerWorker"} & strategy[kind].keys()
    share = max([gpus, 1, *(strategy[kind][name] for name in processes)])
    training: Manifest = {
        "framework": framework,
        "strategy": strategy,
        "workers": {"replicas": replicas, "gpus": gpus},
        "batchSize": replicas * share * draw(st.integers(1, 64)),
    }
    if draw(st.booleans()):
        training["output"] = {"volume": draw(_VOLUMES)}
    run_policy = {
        "suspend": draw(st.booleans()),
        "retentionPolicy": draw(st.sampled_from(["Retain", "Delete"])),
        "schedulingPolicy": {"gang": draw(st.sampled_from(["Timeout", "Wait"]))},
    }
    name = draw(st.sampled_from(["a", "digits", "resnet-152-4", "x--9", "a" * 40]))
    document = manifest(name=name, dataset=dataset, training=training, run_policy=run_policy)
    return read(document, shards=draw(st.integers(1, 20)))
