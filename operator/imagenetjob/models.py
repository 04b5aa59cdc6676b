"""The models of a job's fields, for jobs that are written in Python.

    from imagenetjob import ImageNetJob, models

    source = models.Source(volume=models.VolumeSource(claim_name="raw", path="digits.tar"))

Each is a part of the resource, with its fields in snake_case. Two names that the resource has twice
begin with what they belong to.
"""

from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.dataset import DatasetSpec, Preprocessing, Publish, Split, Validation
from imagenet_spec.resource.elastic_workers import ElasticPolicy
from imagenet_spec.resource.job import (
    ImageNetJob,
    ImageNetJobSpec,
    ObjectMeta,
    RunPolicy,
    SchedulingPolicy,
)
from imagenet_spec.resource.networks import ImageSize, Network
from imagenet_spec.resource.sources import Source
from imagenet_spec.resource.sources.fields import BucketFolder, UploadedResults
from imagenet_spec.resource.sources.fields import Cache as SourceCache
from imagenet_spec.resource.sources.http import HttpSource, ServedFile
from imagenet_spec.resource.sources.http import ServedFolder as HttpFolder
from imagenet_spec.resource.sources.hugging_face import HuggingFaceSource
from imagenet_spec.resource.sources.kaggle import KaggleSource
from imagenet_spec.resource.sources.layout import Labels, SplitImages, Splits
from imagenet_spec.resource.sources.prepared import PreparedSource
from imagenet_spec.resource.sources.prepared import ServedFolder as PreparedFolder
from imagenet_spec.resource.sources.s3 import S3Source
from imagenet_spec.resource.sources.synthetic import SyntheticSource
from imagenet_spec.resource.sources.volume import VolumeSource
from imagenet_spec.resource.strategies import Strategy
from imagenet_spec.resource.strategies.distributed_data_parallel import DistributedDataParallel
from imagenet_spec.resource.strategies.horovod import Horovod, Rendezvous
from imagenet_spec.resource.strategies.mirrored import Mirrored
from imagenet_spec.resource.strategies.multi_worker_mirrored import MultiWorkerMirrored
from imagenet_spec.resource.strategies.parameter_server import ParameterServer, Servers
from imagenet_spec.resource.strategies.single import Single
from imagenet_spec.resource.tracking import (
    Mlflow,
    SecretKeyReference,
    TensorBoard,
    Tracking,
    UriSource,
)
from imagenet_spec.resource.training import (
    Best,
    Checkpoint,
    EarlyStopping,
    Optimizer,
    Output,
    SecretReference,
    TrainingSpec,
    Upload,
    Workers,
)
from imagenet_spec.resource.training import Cache as WorkerCache
from imagenet_spec.resource.volumes import VolumeClaim

__all__ = [
    "Augmentation",
    "Best",
    "BucketFolder",
    "Checkpoint",
    "DatasetSpec",
    "DistributedDataParallel",
    "EarlyStopping",
    "ElasticPolicy",
    "Horovod",
    "HttpFolder",
    "HttpSource",
    "HuggingFaceSource",
    "ImageNetJob",
    "ImageNetJobSpec",
    "ImageSize",
    "KaggleSource",
    "Labels",
    "Mirrored",
    "Mlflow",
    "MultiWorkerMirrored",
    "Network",
    "ObjectMeta",
    "Optimizer",
    "Output",
    "ParameterServer",
    "PreparedFolder",
    "PreparedSource",
    "Preprocessing",
    "Publish",
    "Rendezvous",
    "RunPolicy",
    "S3Source",
    "SchedulingPolicy",
    "SecretKeyReference",
    "SecretReference",
    "ServedFile",
    "Servers",
    "Single",
    "Source",
    "SourceCache",
    "Split",
    "SplitImages",
    "Splits",
    "Strategy",
    "SyntheticSource",
    "TensorBoard",
    "Tracking",
    "TrainingSpec",
    "Upload",
    "UploadedResults",
    "UriSource",
    "Validation",
    "VolumeClaim",
    "VolumeSource",
    "WorkerCache",
    "Workers",
]
