"""`spec.training`: the network, its optimizer, and the pods that train it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MaxLen
from pydantic import Field

from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from imagenet_spec.program.option import flag
from imagenet_spec.program.train import (
    MODES,
    WITHOUT_VALIDATION,
    Metric,
    Mode,
    OptimizerName,
    Precision,
    Reader,
    Scaling,
    Schedule,
    WarmupStrategy,
)
from imagenet_spec.resource import capabilities, elastic_workers
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.base import DefaultWhenRead, Model, OneOf, Unit
from imagenet_spec.resource.elastic_workers import ElasticPolicy
from imagenet_spec.resource.extra_arguments import NO_REPEATED_OPTION, NO_SECOND_PRECISION
from imagenet_spec.resource.fields import (
    Count,
    Fraction,
    PositiveInt,
    RelativePath,
    Replicas,
    Seconds,
    SecretName,
    StorageClassName,
    Template,
    Text,
    given_option,
    stays_below,
    without_options_cel,
)
from imagenet_spec.resource.frameworks import FrameworkName
from imagenet_spec.resource.networks import Network
from imagenet_spec.resource.quantities import POSITIVE_BYTES
from imagenet_spec.resource.sources.fields import BucketFolder, UploadedResults
from imagenet_spec.resource.strategies import DEVICES_CEL, TRAINING_RULES, Strategy
from imagenet_spec.resource.tracking import Tracking
from imagenet_spec.resource.volumes import VolumeClaim
from imagenet_spec.rules import Rule


class Optimizer(Model):
    """The update rule and the learning rate over the epochs."""

    name: OptimizerName = "sgd"
    """The optimizer. adam adds weight decay to the gradient, adamw to the update (Loshchilov and
    Hutter 2019). lamb scales the update of each layer (You et al. 2020)."""

    learning_rate: Annotated[float, Gt(0), Le(1000)] = 0.1
    """The learning rate after warm-up, before the first step."""

    learning_rate_scaling: Scaling = "none"
    """The scaling of the learning rate with the batch. The factor is 1, the images of an update
    divided by `learningRateScalingBase`, or its square root. An update has `batchSize` images, with
    dist_async a worker's part of them."""

    learning_rate_scaling_base: Annotated[PositiveInt, Unit("images")] = 256
    """The batch size for which `learningRate` was chosen."""

    momentum: Annotated[float, Ge(0), Le(1)] = 0.9
    """The momentum of sgd, nag and lbsgd; other optimizers ignore it."""

    weight_decay: Annotated[float, Ge(0), Le(1)] = 0.0001
    """The weight of the L2 penalty."""

    learning_rate_factor: Annotated[float, Gt(0), Le(1)] = 0.1
    """The factor of the learning rate at each of `stepEpochs`."""

    step_epochs: Annotated[tuple[PositiveInt, ...], MaxLen(64), Unit("epochs")] = (30, 60)
    """The epochs at which the schedule step reduces the learning rate."""

    warmup_epochs: Annotated[Count, Unit("epochs")] = 5
    """Epochs over which the learning rate rises from near zero; 0 turns warm-up off."""

    schedule: Annotated[Schedule, DefaultWhenRead()] = "step"
    """The fall of the learning rate after warm-up. `step` falls at `stepEpochs`. `cosine` and
    `polynomial` fall to 0 at the end of the last epoch."""

    power: Annotated[float, Gt(0), Le(100), DefaultWhenRead()] = 2.0
    """The power of the schedule polynomial."""

    ema_decay: Fraction | None = None
    """The decay of an exponential moving average of the weights, such as 0.9999. Validation and the
    exported model use the average. Absent: no average."""

    warmup_strategy: WarmupStrategy = "linear"
    """The shape of the rise; lars is layer-wise and needs the optimizer lbsgd."""

    rules = (
        Rule(
            cel=(
                "self.stepEpochs.isSorted()"
                " && self.stepEpochs.all(one, self.stepEpochs.exists_one(other, other == one))"
            ),
            message="must rise from one epoch to the next",
            field="stepEpochs",
            explain=lambda optimizer: (
                f"must rise from one epoch to the next, not {list(optimizer.step_epochs)}",
                f"write {sorted(set(optimizer.step_epochs))}",
            ),
        ),
        Rule(
            cel="self.warmupStrategy != 'lars' || self.name == 'lbsgd'",
            message="can be lars only with the optimizer lbsgd",
            field="warmupStrategy",
            hint="write linear, or name: lbsgd",
        ),
    )


class Best(Model):
    """The epoch with the best validation: its checkpoint is kept, and its model exported."""

    metric: Metric
    """The figure of the validation, over all its images: an accuracy, or the mean cross-entropy in
    nats. Of equal epochs the first is the best."""

    mode: Mode | None = None
    """Whether the largest value is the best, or the smallest: `max` for an accuracy, `min` for the
    loss. Absent: that of the metric."""

    rules = (
        Rule(
            cel="!has(self.mode) || self.mode == (self.metric == 'loss' ? 'min' : 'max')",
            message="must be max for top1 and top5, and min for loss",
            field="mode",
            explain=lambda best: (
                f"must be {MODES[best.metric]} for {best.metric}",
                f"write {MODES[best.metric]}, or remove mode",
            ),
        ),
    )


class EarlyStopping(Model):
    """When training ends before the last epoch."""

    metric: Metric
    """The figure of the validation that must improve: an accuracy rises, the loss falls."""

    patience: Annotated[PositiveInt, Unit("epochs")]
    """Training stops after this many epochs in a row without an improvement."""

    min_delta: Annotated[float, Ge(0), Le(1000), DefaultWhenRead()] = 0.0
    """An epoch improves the metric if it is better by more than this than the last epoch that
    improved it."""


class Checkpoint(Model):
    """When checkpoints are saved, and the checkpoint from which training starts."""

    every_epochs: Annotated[PositiveInt, Unit("epochs")] = 1
    """Save a checkpoint after this many epochs."""

    every_seconds: Seconds | None = None
    """Save a checkpoint also within an epoch, this long after the last one. Absent: 600, or 200
    times what a checkpoint holds training up if that is more; the status has the value in force."""

    keep: PositiveInt = 3
    """The number of checkpoints to keep; older ones are deleted, but never that of `best`."""

    best: Best | None = None
    """Keep the checkpoint of the best epoch, whatever `keep` and `everyEpochs` are. The exported
    model, its result and the predictions are that epoch's. Absent: those of the last epoch."""

    init_from: RelativePath | None = None
    """The folder of a checkpoint on the output volume, of any job, from which training starts."""

    init_from_remote: UploadedResults | None = None
    """The uploaded results of another job, from whose newest checkpoint training starts."""

    rules = (stays_below("initFrom"),)


class Cache(Model):
    """The volume of each worker for the records that it reads from a bucket or a server."""

    size: Annotated[str, MaxLen(32), Field(pattern=POSITIVE_BYTES), Unit("bytes, as 200Gi")]
    """The size. The training images divided by the workers (by `minReplicas` if given) and their
    validation images must fit; if not, the job fails before it trains and says how much is
    needed."""

    medium: Annotated[Literal["Disk", "Memory"], DefaultWhenRead()] = "Disk"
    """Disk of the node, or its memory, which counts towards the memory limit of the worker."""

    storage_class_name: StorageClassName | None = None
    """The storage class of a claim that is made for each worker and deleted with its pod. Absent:
    an emptyDir on the node."""

    rules = (
        Rule(
            cel="!has(self.storageClassName) || !has(self.medium) || self.medium == 'Disk'",
            message="is for the medium Disk",
            field="storageClassName",
            hint="remove storageClassName or medium",
        ),
    )


class Workers(Model):
    """The pods that compute gradients."""

    replicas: Replicas = 1
    """The number of workers; with `minReplicas` the largest."""

    min_replicas: Replicas | None = None
    """The least number of workers, with which training goes on while nodes are missing. Absent: an
    attempt always has `replicas`."""

    elastic: ElasticPolicy | None = None
    """When the number of workers changes between `minReplicas` and `replicas`."""

    gpus: Annotated[int, Ge(0), Le(64)] = 0
    """GPUs of each worker (``nvidia.com/gpu``); with 0 it trains on the CPU."""

    template: Template | None = None
    """A PodTemplateSpec, merged strategically into the workers' pods."""

    cache: Cache | None = None
    """The volume for the records that a worker reads from a bucket or a server. Absent: they are
    fetched in every epoch."""

    rules = elastic_workers.WORKERS_RULES


class Upload(OneOf):
    """Exactly one place to which the results of a job that has succeeded are uploaded."""

    s3: BucketFolder | None = None
    """A prefix of a bucket, which gets the folder ``NAME-UID`` as on the volume."""


class Output(Model):
    """The place of the results."""

    volume: VolumeClaim | None = None
    """The volume to which results are written, in ``jobs/NAME-UID``. Absent: the dataset's
    volume."""

    upload: Upload | None = None
    """Upload the model, its card, the curves and the kept checkpoints after training has succeeded.
    A failure sets the condition ModelUploaded to False with its reason; the upload is tried again,
    and the job stays Succeeded. May change at any time."""

    rules = (
        Rule(
            cel="has(self.volume) || has(self.upload)",
            message="must be given, or upload",
            field="volume",
            hint="write volume: {claimName: …}, or remove output",
        ),
    )


class SecretReference(Model):
    """A Secret in the job's namespace."""

    name: SecretName
    """The Secret's name."""


def devices(training: TrainingSpec) -> int:
    """Return the number of devices that share a batch: GPUs, or processes on CPUs."""
    return training.workers.replicas * training.strategy.devices(training.workers.gpus)


def _explain_batch(training: TrainingSpec) -> tuple[str, str]:
    count, batch = devices(training), training.batch_size
    below, above = batch // count * count, -(-batch // count) * count
    choices = f"{below} or {above}" if below else str(above)
    return f"{batch} is not divisible by {count} devices", f"write {choices}"


_UNVALIDATED = [flag(name) for name in WITHOUT_VALIDATION]


def _needs_validation(field: str, has: str) -> Rule:
    """Return the rule that epochs are validated, if a field judges them by that."""

    def explain(training: Any) -> tuple[str, str]:
        option = given_option(training, _UNVALIDATED)
        return f"needs validations, and {option} leaves them out", f"remove it, or {option}"

    return Rule(
        cel=f"!({has}) || {without_options_cel(_UNVALIDATED)}",
        message="needs validations, which an option of extraArgs leaves out",
        field=field,
        explain=explain,
    )


class TrainingSpec(Model):
    """The training: network, optimizer, strategy and workers."""

    framework: FrameworkName = DEFAULT_FRAMEWORK
    """The framework."""

    strategy: Strategy
    """The distribution strategy: exactly one."""

    model: Network
    """The network."""

    batch_size: Annotated[PositiveInt, Unit("images")]
    """Images of one optimizer step, over all devices of all workers; must be divisible by their
    number; with `workers.minReplicas`, by the devices of a number of workers from there to
    `replicas`. In MXNet's own programs the option is that of one worker."""

    epochs: Annotated[PositiveInt, Unit("epochs")]
    """Passes over the training images; with `earlyStopping`, the most."""

    early_stopping: EarlyStopping | None = None
    """Stop when the validation no longer improves. The job then succeeds with the reason
    EarlyStopped. Absent: all epochs are trained."""

    precision: Precision | None = None
    """The precision of the network's operations. With `bfloat16` and `float16` the optimizer keeps
    weights in `float32`. A processor without instructions for `bfloat16` can be over 100 times
    slower with it; the program warns before it trains. Absent: `float32`."""

    compile: bool | None = None
    """Whether PyTorch compiles the network (`torch.compile`), which takes minutes at the start of
    each attempt and makes steps faster. If `true`, a missing compiler and code that cannot be
    compiled are errors. Not with `deterministic`. Absent: on GPUs true, unless `deterministic`; if
    it fails, the network trains as it is, with a warning. A training that goes on does so as it
    began."""

    compile_cache: bool | None = None
    """Whether compiled code is kept beside the checkpoints and run by later attempts, which then
    need not compile again. Who can write to the volume can put other code there, to run it in the
    workers. Absent: true."""

    activation_checkpointing: bool | None = None
    """Whether PyTorch's backward pass computes activations again (`torch.utils.checkpoint`), which
    needs less memory and takes longer. Gradients stay the same. Absent: false."""

    data_threads: Annotated[int | None, Ge(1), Le(1024), Unit("cores")] = None
    """Cores that decode images for each training process, at most all that its pod may use. In a
    pod of three or more cores, separate programs decode, which leave the process that trains
    alone. Absent: the pod's cores less one for each process, divided by the processes; at least
    1."""

    reader: Reader | None = None
    """What reads the records. `Ordered` has one order for any number of workers, and resumes within
    an epoch without reading again what was trained. `ImageRecordIter` is MXNet's. Absent:
    `ImageRecordIter` for jobs with an augmentation that only it has, otherwise `Ordered`."""

    deterministic: bool | None = None
    """Whether each run gives the same bits, for the same workers and hardware: only algorithms that
    do so are used, which may be slower. `parameterServer` then takes at most 2 workers.
    Absent: false."""

    optimizer: Optimizer = Optimizer()
    """The update rule and the learning rate."""

    label_smoothing: Fraction | None = None
    """The part of each label that all classes get alike. Absent: 0."""

    augmentation: Augmentation = Augmentation()
    """Random changes to training images."""

    checkpoint: Checkpoint = Checkpoint()
    """When checkpoints are saved."""

    workers: Workers = Workers()
    """The pods that train."""

    output: Output | None = None
    """The place of the results. Absent: the dataset's volume."""

    tracking: Tracking | None = None
    """Where the training is followed with TensorBoard or MLflow. Absent: nowhere."""

    image: Text | None = None
    """The image of the workers. Absent: the operator's image for CPU or GPU. It runs
    `imagenet-train`, or the `command` of the workers' template, which may be any program.
    Schedulers, servers and rendezvous always run the operator's image for CPU."""

    image_pull_secrets: Annotated[tuple[SecretReference, ...], MaxLen(16)] = ()
    """Image pull Secrets of every pod."""

    extra_args: Annotated[tuple[Text, ...], MaxLen(64)] = ()
    """Further options of ``imagenet-train``, for the workers. An option that a field sets is
    rejected, and so are all options beside the `command` of a template."""

    rules = (
        Rule(
            cel=(
                "self.workers.replicas < 1 || has(self.workers.minReplicas)"
                f" || self.batchSize % (self.workers.replicas * {DEVICES_CEL}) == 0"
            ),
            message=(
                "must be divisible by the number of devices: workers.replicas times workers.gpus "
                "(1 if none, or"
                " the slots of Horovod)"
            ),
            field="batchSize",
            explain=_explain_batch,
        ),
        Rule(
            cel="!has(self.model.pretrained) || !has(self.checkpoint.initFrom)",
            message="must be absent with checkpoint.initFrom: training starts from one of them",
            field="model.pretrained",
            hint="remove one of them",
        ),
        Rule(
            cel=(
                "(!has(self.model.pretrainedRemote) && !has(self.checkpoint.initFromRemote))"
                " || [has(self.model.pretrained), has(self.model.pretrainedRemote),"
                " has(self.checkpoint.initFrom), has(self.checkpoint.initFromRemote)]"
                ".exists_one(given, given)"
            ),
            message="must start from one place",
            hint="keep one of model.pretrained, model.pretrainedRemote, checkpoint.initFrom, "
            "checkpoint.initFromRemote",
        ),
        _needs_validation("earlyStopping", "has(self.earlyStopping)"),
        _needs_validation("checkpoint.best", "has(self.checkpoint.best)"),
        NO_REPEATED_OPTION,
        NO_SECOND_PRECISION,
        *capabilities.RULES,
        *elastic_workers.RULES,
        *TRAINING_RULES,
    )

    @property
    def start(self) -> BucketFolder | None:
        """The uploaded results from which training starts. None: it starts from none."""
        remote = self.model.pretrained_remote or self.checkpoint.init_from_remote
        return None if remote is None else remote.s3

    @property
    def upload(self) -> BucketFolder | None:
        """The place to which the results are uploaded. None: they are not."""
        upload = None if self.output is None else self.output.upload
        return None if upload is None else upload.s3
