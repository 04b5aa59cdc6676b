"""A table of jobs that between them use everything the builders make manifests from.

The tests of the manifests use them. So do the contract tests, which feed the arguments of these
jobs to the parsers of the workloads.
"""

import copy
from typing import Any

from imagenet_operator.manifests import attempt
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_spec.resource import ImageNetJob

Manifest = dict[str, Any]

KEY = "0123456789abcdef0123456789abcdef"
UID = "6f3c1f0e-8a52-4c0e-9b0a-0d6a5d1f7a11"

VOLUME = {"volume": {"claimName": "raw", "path": "fall11_whole.tar"}}
SYNTHETIC = {"synthetic": {"classes": 10, "imagesPerClass": 20, "imageShape": [3, 64, 48]}}
BUCKET = {
    "bucket": "datasets",
    "prefix": "imagenet",
    "endpoint": "https://s3.example.com",
    "region": "eu-central-1",
    "secretName": "bucket-keys",
}
PREPARED = {"prepared": {"claimName": "shared", "path": "datasets/imagenet"}}
FETCHED = {
    "http": {
        "files": [{"name": "x.tar.gz", "url": "https://images.example.com/x.tar.gz"}],
        "secretName": "login",
        "cache": {"claimName": "cache"},
    }
}
LABELS = {"path": "ILSVRC2012_img_val.tar", "labels": "val.txt"}
ADMITTED = {
    "type": "Created",
    "status": "True",
    "reason": "Admitted",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}
"""A condition of a job that an operator has admitted."""

SERVERS = {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 2}}}


def manifest(
    *,
    name: str = "digits",
    dataset: Manifest | None = None,
    training: Manifest | None = None,
    run_policy: Manifest | None = None,
) -> Manifest:
    """Return a job's manifest: two workers and two servers, with changes to parts of its spec.

    Every call returns its own, which may be edited.
    """
    built = {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name, "namespace": "vision", "uid": UID},
        "spec": {
            "dataset": {"source": VOLUME, "volume": {"size": "200Gi"}, **(dataset or {})},
            "training": {
                "strategy": SERVERS,
                "model": {"network": "resnet", "numLayers": 50},
                "batchSize": 512,
                "epochs": 90,
                "workers": {"replicas": 2},
                **(training or {}),
            },
            "runPolicy": run_policy or {},
        },
    }
    return copy.deepcopy(built)


TFRECORD = {"preprocessing": {"format": "TFRecord"}}


def tensorflow(strategy: Manifest, **training: Any) -> Manifest:
    """Return the manifest of a job for TensorFlow."""
    fields = {"framework": "TensorFlow", "strategy": strategy, **training}
    return manifest(dataset=TFRECORD, training=fields)


def pytorch(strategy: Manifest, **training: Any) -> Manifest:
    """Return the manifest of a job for PyTorch."""
    return manifest(training={"framework": "PyTorch", "strategy": strategy, **training})


OWN_PROGRAM: Manifest = {
    "image": "registry.example/team/train:7",
    "workers": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "command": ["python", "-m", "team.train"],
                        "args": ["--data", "$(IMAGENET_DATASET)", "--into", "$(IMAGENET_RESULTS)"],
                    }
                ]
            }
        },
    },
}
"""Fields of `training` for a user's own program."""

TABLE: dict[str, Manifest] = {
    "defaults": manifest(),
    "synthetic": manifest(dataset={"source": SYNTHETIC}),
    "prepared": manifest(dataset={"source": PREPARED, "volume": None}),
    "resized": manifest(
        dataset={"source": PREPARED, "preprocessing": {"resize": 256, "parallelism": 2}}
    ),
    "prepared and verified": manifest(
        dataset={"source": PREPARED, "volume": None, "verify": "Checksums"}
    ),
    "prepared with its own output": manifest(
        dataset={"source": PREPARED, "volume": None},
        training={"output": {"volume": {"claimName": "results"}}},
    ),
    "in a bucket": manifest(
        dataset={"source": {"prepared": {"s3": BUCKET}}, "volume": None},
        training={
            "output": {"volume": {"claimName": "results"}},
            "workers": {"replicas": 2, "cache": {"size": "200Gi"}},
        },
    ),
    "published": manifest(dataset={"publish": {"s3": BUCKET}}),
    "from an upload": manifest(
        training={"checkpoint": {"initFromRemote": {"s3": BUCKET}}},
    ),
    "pretrained by an upload": pytorch(
        {"distributedDataParallel": {}},
        model={"network": "resnet", "numLayers": 50, "pretrainedRemote": {"s3": BUCKET}},
    ),
    "uploaded": manifest(training={"output": {"upload": {"s3": BUCKET}}}),
    "on a server": manifest(
        dataset={
            "source": {
                "prepared": {
                    "http": {
                        "url": "https://data.example.com/imagenet",
                        "secretName": "login",
                        "queryKey": "sas",
                    }
                }
            },
            "volume": None,
        },
        training={
            "output": {"volume": {"size": "1Gi"}},
            "strategy": {"horovod": {"slotsPerWorker": 2}},
            "workers": {
                "replicas": 2,
                "cache": {"size": "1Gi", "storageClassName": "fast"},
            },
        },
    ),
    "validation with labels": manifest(dataset={"validation": LABELS}),
    "all of preprocessing": manifest(
        dataset={
            "validation": {"split": {"imagesPerClass": 7}},
            "preprocessing": {
                "resize": 480,
                "quality": 95,
                "shards": 16,
                "parallelism": 4,
                "minImagesPerClass": 0,
                "seed": 3,
                "maxSkippedFraction": 0.00001,
                "template": {
                    "spec": {
                        "nodeSelector": {"disk": "fast"},
                        "containers": [
                            {"name": "main", "resources": {"requests": {"cpu": "2500m"}}}
                        ],
                    }
                },
            },
        }
    ),
    "one node": manifest(dataset={"volume": {"size": "9Gi", "accessModes": ["ReadWriteOnce"]}}),
    "no class": manifest(dataset={"volume": {"size": "9Gi", "storageClassName": ""}}),
    "output on one node": manifest(
        dataset={"volume": {"claimName": "shared"}},
        training={
            "output": {
                "volume": {
                    "size": "1Gi",
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local",
                }
            }
        },
    ),
    "output on the dataset's claim": manifest(
        dataset={"volume": {"claimName": "shared"}},
        training={"output": {"volume": {"claimName": "shared"}}},
    ),
    "gpus": manifest(
        training={"workers": {"replicas": 4, "gpus": 8}, "imagePullSecrets": [{"name": "registry"}]}
    ),
    "own image": manifest(training={"image": "registry.example/team/train:7"}),
    "single": manifest(
        training={
            "strategy": {"single": {"kvStore": "local"}},
            "model": {"network": "lenet", "imageShape": [1, 28, 28]},
            "workers": {"replicas": 1},
        }
    ),
    "single with gpus": manifest(
        training={"strategy": {"single": {}}, "workers": {"replicas": 1, "gpus": 4}}
    ),
    "single with nccl": manifest(
        training={
            "strategy": {"single": {"kvStore": "nccl"}},
            "workers": {"replicas": 1, "gpus": 4},
        }
    ),
    "asynchronous": manifest(training={"strategy": {"parameterServer": {"kvStore": "dist_async"}}}),
    "all of training": manifest(
        training={
            "strategy": {"parameterServer": {"kvStore": "dist_device_sync"}},
            "model": {"network": "inception-v3", "imageShape": [3, 299, 299]},
            "dataThreads": 16,
            "optimizer": {
                "name": "nag",
                "learningRate": 0.000001,
                "momentum": 0,
                "weightDecay": 0.00005,
                "learningRateFactor": 0.94,
                "stepEpochs": [],
                "warmupEpochs": 0,
                "warmupStrategy": "power2",
                "learningRateScaling": "sqrt",
                "learningRateScalingBase": 1024,
            },
            "augmentation": {
                "randomMirror": True,
                "randomResizedCrop": True,
                "maxRandomH": 36,
                "maxRandomS": 50,
                "maxRandomL": 50,
                "minRandomAspectRatio": 0.75,
                "maxRandomAspectRatio": 1.33,
                "maxRandomRotateAngle": 10,
                "maxRandomShearRatio": 0.1,
                "maxRandomArea": 0.9,
                "minRandomArea": 0.08,
                "brightness": 0.4,
                "contrast": 0.4,
                "saturation": 0.4,
                "pcaNoise": 0.1,
                "padSize": 4,
                "fillValue": 0,
            },
            "checkpoint": {
                "everyEpochs": 5,
                "everySeconds": 600,
                "keep": 1,
                "initFrom": "jobs/base-1234/attempts/r0/checkpoints/epoch-0090-batch-00000000",
            },
            "extraArgs": ["--disp-batches", "50", "--benchmark=1"],
        }
    ),
    "tracked": manifest(
        training={
            "tracking": {
                "tensorBoard": {},
                "mlflow": {
                    "uriFrom": {"secretKeyRef": {"name": "mlflow", "key": "address"}},
                    "experiment": "digits, by hand",
                },
            }
        }
    ),
    "crops at random": manifest(
        training={
            "augmentation": {"randomCrop": True, "minRandomScale": 0.533, "maxRandomScale": 1.5}
        }
    ),
    "fetched": manifest(dataset={"source": FETCHED}),
    "fetched from a bucket": manifest(
        dataset={
            "source": {
                "s3": {
                    "bucket": "imagenet",
                    "key": "fall11_whole.tar",
                    "checksum": f"md5:{KEY}",
                    "cache": {"claimName": "cache"},
                }
            },
            "validation": LABELS,
        }
    ),
    "waits for its gang": manifest(run_policy={"schedulingPolicy": {"gang": "Wait"}}),
    "suspended": manifest(run_policy={"suspend": True}),
    "deletes its volumes": manifest(
        run_policy={"retentionPolicy": "Delete"},
        training={"output": {"volume": {"size": "1Gi"}}},
    ),
    "horovod": manifest(training={"strategy": {"horovod": {}}}),
    "horovod with slots": manifest(
        training={"strategy": {"horovod": {"slotsPerWorker": 4}}, "workers": {"replicas": 2}}
    ),
    "horovod with gpus": manifest(
        training={
            "strategy": {"horovod": {"slotsPerWorker": 2}},
            "workers": {"replicas": 4, "gpus": 8},
        }
    ),
    "horovod of tensorflow": tensorflow({"horovod": {}}, workers={"replicas": 2, "gpus": 4}),
    "mirrored": tensorflow({"mirrored": {}}, workers={"replicas": 1, "gpus": 4}),
    "multi-worker mirrored": tensorflow({"multiWorkerMirrored": {}}),
    "single of pytorch": pytorch({"single": {}}, workers={"replicas": 1, "gpus": 1}),
    "distributed data parallel": pytorch({"distributedDataParallel": {}}),
    "distributed data parallel with gpus": pytorch(
        {"distributedDataParallel": {}}, workers={"replicas": 2, "gpus": 4}
    ),
    "distributed data parallel with processes": pytorch(
        {"distributedDataParallel": {"processesPerWorker": 2}}
    ),
    "pretrained weights": pytorch(
        {"single": {}},
        workers={"replicas": 1},
        model={
            "network": "resnet",
            "numLayers": 50,
            "pretrained": "weights/resnet50.safetensors",
        },
    ),
    "network of timm": pytorch(
        {"single": {}}, workers={"replicas": 1}, model={"network": "timm/resnet10t"}
    ),
    "compiled": pytorch({"single": {}}, workers={"replicas": 1}, compile=True),
    "sizes of images": pytorch(
        {"single": {}},
        workers={"replicas": 1},
        model={
            **{"network": "resnet", "numLayers": 50},
            "imageSizes": [{"epoch": 0, "size": 160}, {"epoch": 12, "size": 192}],
            "validationSize": 256,
        },
    ),
    "activation checkpointing": pytorch(
        {"single": {}}, workers={"replicas": 1}, activationCheckpointing=True
    ),
    "single of pytorch in bfloat16": pytorch(
        {"single": {}}, workers={"replicas": 1, "gpus": 1}, precision="bfloat16"
    ),
    "a recipe of today": pytorch(
        {"single": {}},
        workers={"replicas": 1},
        labelSmoothing=0.1,
        optimizer={"name": "lamb", "schedule": "polynomial", "power": 1, "emaDecay": 0.9999},
        augmentation={
            "randomErasing": 0.1,
            "randAugmentOperations": 2,
            "randAugmentMagnitude": 7,
            "mixup": 0.2,
            "cutmix": 1,
            "offInLastEpochs": 5,
        },
    ),
    "elastic": manifest(
        training={
            "batchSize": 480,
            "workers": {"replicas": 8, "minReplicas": 4, "elastic": {"waitSeconds": 120}},
        }
    ),
    "elastic with gpus": pytorch(
        {"distributedDataParallel": {}},
        batchSize=1000,
        workers={"replicas": 9, "minReplicas": 3, "gpus": 2},
    ),
    "longest name": manifest(name="a" * 40),
}
"""Name → manifest, each valid."""


def read(document: Manifest, shards: int = 9) -> ImageNetJob:
    """Return the job of a manifest, with its dataset's images listed as if index had run."""
    spec = {**document["spec"], "dataset": _given(document["spec"]["dataset"])}
    images = {"train": 1200, "validation": 100}
    status = {"dataset": {"key": KEY, "classes": 9, "images": images, "shards": shards}}
    return ImageNetJob.model_validate({**document, "spec": spec, "status": status})


def _given(fields: Manifest) -> Manifest:
    return {name: value for name, value in fields.items() if value is not None}


JOBS: dict[str, ImageNetJob] = {name: read(document) for name, document in TABLE.items()}
"""Name → job, its images listed."""


def members(job: ImageNetJob, number: int = 0, settings: Settings = DEFAULTS) -> list[Manifest]:
    """Return the pods of an attempt, without what they share."""
    return [item for item in attempt.build(job, number, settings) if item["kind"] == "Pod"]


def variables(container: Manifest) -> dict[str, str]:
    """Return the variables of a container that have a plain value."""
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}
