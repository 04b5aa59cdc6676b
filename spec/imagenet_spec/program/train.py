"""Every option of `imagenet-train`, with its default.

Names and defaults are those of MXNet's example/image-classification (common/fit.py, common/data.py
and train_imagenet.py), so that a command line written for it works here. Options that MXNet's
example does not have are named `dataset`, `dataset-*`, `cache*`, `output`, `checkpoint-*`,
`init-from`, `lr-scaling*`, `lr-schedule`, `lr-power`, `label-smoothing`, `ema-decay`,
`random-erasing`, `rand-augment-*`, `mixup`, `cutmix`, `off-in-last-epochs`, `clip-gradient`,
`pretrained`, `image-sizes`, `validation-size`, `compile`, `compile-cache`,
`activation-checkpointing`, `seed`, `validation-resize`, `reader`, `preset`, `framework`,
`distribution-strategy`, `max-batches`, `early-stopping-*`, `join-timeout` and `termination-grace`.
"""

from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, get_args, get_type_hints

from imagenet_spec.names import IMAGENET_OUTPUT, TRAIN_PROGRAM
from imagenet_spec.program import kinds
from imagenet_spec.program.option import Option, OptionGroup, Program, option
from imagenet_spec.program.presets import PRESETS

IMAGENET_DECAY = kinds.StepDecay((30, 60))
SMALL_IMAGE: Final = 32
"""Up to this height, a resnet is that of the CIFAR experiments, with other depths."""
ORDERED: Final = "Ordered"
Reader = Literal["Ordered", "ImageRecordIter"]
READERS: Final[tuple[Reader, ...]] = get_args(Reader)
# Rotation and shear move pixels between others; HLS is not linear in RGB.
ONLY_IMAGE_RECORD_ITER = (
    "max_random_h",
    "max_random_s",
    "max_random_l",
    "max_random_rotate_angle",
    "max_random_shear_ratio",
)
"""The augmentations that the ordered reader lacks."""
ONLY_ORDERED = ("random_erasing", "rand_augment_operations", "off_in_last_epochs")
"""The augmentations that ImageRecordIter lacks."""
THREADS, PROCESSES = "threads", "processes"
Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
BFLOAT16_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""The names of bfloat16's instructions in /proc/cpuinfo, of x86-64 and of Arm."""
OptimizerName = Literal["sgd", "nag", "lbsgd", "adam", "rmsprop", "adamw", "lamb"]
"""Names of optimizers: MXNet's, and adamw."""
Schedule = Literal["step", "cosine", "polynomial"]
Scaling = Literal["none", "linear", "sqrt"]
WarmupStrategy = Literal["linear", "power2", "sqrt", "lars"]
Metric = Literal["top1", "top5", "loss"]
"""A figure of the validation after an epoch."""
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
Mode = Literal["max", "min"]
MODES: Final[dict[Metric, Mode]] = {"top1": "max", "top5": "max", "loss": "min"}
"""Whether the best value of a metric is the largest or the smallest."""
WITHOUT_VALIDATION = ("benchmark", "test_io", "max_batches")
"""The options with which no epoch is validated."""
INITIALIZERS = ("default", "xavier", "msra", "orthogonal", "normal", "uniform", "one", "zero")


class PresetOptions(OptionGroup):
    """Defaults that go together; an explicit option wins over them."""

    preset: str = option(
        "imagenet",
        "defaults of train_imagenet.py or of train_cifar10.py",
        choices=sorted(PRESETS),
    )
    use_imagenet_data_augmentation: int = option(
        0, "1 turns on the usual augmentation for ImageNet", kinds.switch, choices=(0, 1)
    )


class ModelOptions(OptionGroup):
    """What is trained."""

    network: str = option(
        "resnet",
        "the network's family, such as lenet, resnet, inception-v3",
        field="training.model.network",
    )
    num_layers: int | None = option(
        50,
        "depth, for families that come in several",
        kinds.positive,
        field="training.model.numLayers",
    )
    num_classes: int = option(
        1000, "classes; --dataset knows its own", kinds.positive, field="dataset"
    )
    image_shape: tuple[int, int, int] = option(
        (3, 224, 224),
        "channels,height,width of what the network sees",
        kinds.image_shape,
        field="training.model.imageShape",
    )
    image_sizes: tuple[kinds.ImageSize, ...] = option(
        (),
        "EPOCH:PIXELS,…: height and width of training images from each of these epochs on, counted "
        "from 0; without it those of --image-shape",
        kinds.image_sizes,
        field="training.model.imageSizes",
        is_optional=True,
    )
    validation_size: int | None = option(
        None,
        "height and width of validation images, and of what the exported model takes; without it "
        "those of --image-shape",
        kinds.positive,
        field="training.model.validationSize",
        is_optional=True,
    )
    pretrained: Path | None = option(
        None,
        "a file of weights to start from, of safetensors or a state_dict of PyTorch's; a last "
        "layer for another number of classes is made new",
        kinds.path,
        field="training.model.pretrained",
        below=IMAGENET_OUTPUT,
        is_optional=True,
    )
    pretrained_url: str | None = option(
        None,
        "the same in a bucket: s3://BUCKET/PREFIX of the uploaded results of another job, or of a "
        "file of weights",
        field="training.model.pretrainedRemote",
        is_optional=True,
    )
    dtype: str = option("float32", "precision of the network", choices=PRECISIONS)
    compile: bool | None = option(
        None,
        "1 compiles the network with torch.compile, for faster steps, and 0 does not; without it a "
        "training compiles on a GPU unless --deterministic is there, and goes on as it began",
        kinds.switch,
        field="training.compile",
        is_optional=True,
    )
    compile_cache: bool = option(
        True,
        "1 keeps compiled code beside the checkpoints, and later attempts of this job run it; who "
        "can write it can run code in the worker",
        kinds.switch,
        field="training.compileCache",
        is_optional=True,
    )
    activation_checkpointing: bool = option(
        False,
        "1 lets the backward pass compute activations again, for less memory and slower steps",
        kinds.switch,
        field="training.activationCheckpointing",
        is_optional=True,
    )
    initializer: str = option("default", "how weights start", choices=INITIALIZERS)
    loss: str = option(
        "", "ce, nll_loss or both with a comma; the log shows this loss anyway", kinds.losses
    )
    top_k: int = option(0, "also log the top-k accuracy for this k; 0 is off", kinds.count)


class OptimizerOptions(OptionGroup):
    """How weights move."""

    optimizer: str = option(
        "sgd",
        "an optimizer of MXNet's, such as sgd, nag, adam, lbsgd",
        field="training.optimizer.name",
    )
    lr: float = option(
        0.1,
        "learning rate at the end of the warm-up",
        kinds.amount_above_zero,
        field="training.optimizer.learningRate",
    )
    lr_factor: float = option(
        0.1,
        "factor at each of the epochs where it falls",
        kinds.amount,
        field="training.optimizer.learningRateFactor",
    )
    lr_step_epochs: kinds.Decay | None = option(
        IMAGENET_DECAY,
        "epochs where it falls, or powN; empty is never",
        kinds.decay,
        field="training.optimizer.stepEpochs",
    )
    lr_schedule: str = option(
        "step",
        "how the rate falls after the warm-up: step at --lr-step-epochs, cosine and polynomial to "
        "0 at the end",
        choices=get_args(Schedule),
        field="training.optimizer.schedule",
    )
    lr_power: float = option(
        2.0, "power of polynomial", kinds.amount_above_zero, field="training.optimizer.power"
    )
    lr_scaling: str = option(
        "none",
        "multiply lr by (batch over all workers / lr-scaling-base), or its root",
        choices=get_args(Scaling),
        field="training.optimizer.learningRateScaling",
    )
    lr_scaling_base: int = option(
        256,
        "the batch that lr was chosen for",
        kinds.positive,
        field="training.optimizer.learningRateScalingBase",
    )
    warmup_epochs: float = option(
        5,
        "epochs in which the rate rises from near 0",
        kinds.amount,
        field="training.optimizer.warmupEpochs",
    )
    warmup_strategy: str = option(
        "linear",
        "how it rises; lars is layer-wise and needs the optimizer lbsgd",
        choices=get_args(WarmupStrategy),
        field="training.optimizer.warmupStrategy",
    )
    mom: float = option(
        0.9,
        "momentum, for the optimizers that have one",
        kinds.amount,
        field="training.optimizer.momentum",
    )
    wd: float = option(1e-4, "weight decay", kinds.amount, field="training.optimizer.weightDecay")
    clip_gradient: float | None = option(
        None, "clip each gradient to this size", kinds.amount_above_zero
    )
    label_smoothing: float = option(
        0.0,
        "part of each label that all classes get alike, 0 to 1",
        kinds.amount,
        field="training.labelSmoothing",
    )
    ema_decay: float | None = option(
        None,
        "decay of a moving average of the weights, such as 0.9999, which is validated and exported",
        kinds.amount,
        field="training.optimizer.emaDecay",
        is_optional=True,
    )
    batch_size: int = option(
        128,
        "images a step of this worker, over its GPUs",
        kinds.positive,
        field="training.batchSize",
    )
    macrobatch_size: int = option(
        0, "add up steps until this many images over all workers, then update", kinds.count
    )
    num_epochs: int = option(80, "epochs", kinds.positive, field="training.epochs")
    early_stopping_metric: Metric | None = option(
        None,
        "stop when this figure of the validation no longer improves; without it all epochs are "
        "trained",
        choices=METRICS,
        field="training.earlyStopping.metric",
    )
    early_stopping_patience: int | None = option(
        None,
        "epochs without an improvement after which it stops",
        kinds.positive,
        field="training.earlyStopping.patience",
    )
    early_stopping_min_delta: float = option(
        0.0,
        "an epoch improves the figure if it is better by more than this",
        kinds.amount,
        field="training.earlyStopping.minDelta",
    )


class DataOptions(OptionGroup):
    """What it is trained on."""

    dataset: Path | None = option(
        None,
        "a sealed dataset's folder, with its dataset.json",
        kinds.path,
        field="dataset",
    )
    dataset_url: str | None = option(
        None,
        "a published dataset: s3://BUCKET/PREFIX, or the URL of its folder on a server",
        field="dataset",
    )
    dataset_endpoint: str | None = option(
        None, "the S3 API of the bucket; without it AWS's", field="dataset"
    )
    dataset_region: str | None = option(
        None, "the bucket's region; without it us-east-1", field="dataset"
    )
    dataset_query_key: str | None = option(
        None,
        "the key of the Secret with the query of each file's URL",
        field="dataset",
    )
    cache: Path | None = option(
        None,
        "folder for the records of --dataset-url that this worker reads; without it they are read "
        "in every epoch",
        kinds.path,
        field="training.workers.cache",
    )
    cache_size: int | None = option(
        None, "most bytes of --cache", kinds.positive, field="training.workers.cache.size"
    )
    data_train: str | None = option(
        None,
        "training records: .rec files or folders, several with ;",
        kinds.text,
        field="dataset",
    )
    data_train_idx: str = option(
        "", "their index files (default: .idx beside each .rec)", field="dataset"
    )
    data_val: str | None = option(
        None,
        "validation records: .rec files or folders, several with ;",
        kinds.text,
        field="dataset",
    )
    data_val_idx: str = option(
        "", "their index files (default: .idx beside each .rec)", field="dataset"
    )
    num_examples: int = option(
        1281167,
        "training images that --benchmark pretends to have",
        kinds.positive,
        field="dataset",
    )
    rgb_mean: tuple[float, float, float] | None = option(
        None,
        "subtracted from each pixel; without it the dataset's own, or 123.68,116.779,103.939",
        kinds.colour,
    )
    rgb_std: tuple[float, float, float] | None = option(
        None, "divides each pixel; without it the dataset's own, or 1,1,1", kinds.colour_scale
    )
    pad_size: int = option(
        0,
        "pixels to pad on each side before a crop",
        kinds.count,
        field="training.augmentation.padSize",
    )
    fill_value: int = option(
        127,
        "colour of what is padded, 0 to 255",
        kinds.count,
        field="training.augmentation.fillValue",
    )
    reader: str | None = option(
        None,
        "Ordered reads in an order that depends on no number of workers, ImageRecordIter is "
        "MXNet's; without it Ordered, unless hue, rotation or shear are augmented",
        choices=READERS,
        field="training.reader",
    )
    data_nthreads: int | None = option(
        None,
        "cores that decode images for this process; without it the pod's, less one for each "
        "process of the pod, divided by them",
        kinds.positive,
        field="training.dataThreads",
    )
    decoding: str | None = option(
        None,
        "processes decode images in programs beside this one, threads in this one; without it the "
        "faster: threads on one or two cores",
        choices=(PROCESSES, THREADS),
    )
    validation_resize: int | None = option(
        None,
        "shorter edge, in pixels, before the validation's central crop; 0 is as packed; "
        "without it 8/7 of the image shape, or as packed below 64 pixels",
        kinds.count,
    )
    benchmark: bool = option(False, "1 trains on made-up images, without reading", kinds.switch)
    test_io: bool = option(False, "1 only reads, and reports how fast", kinds.switch)
    max_batches: int = option(
        0, "end each epoch after this many batches, without validation; 0 is off", kinds.count
    )


class AugmentationOptions(OptionGroup):
    """How training images are varied: as in MXNet's ImageRecordIter, and what came after it."""

    FIELD: ClassVar[str] = "training.augmentation"

    random_crop: bool = option(False, "1 crops at random, not in the centre", kinds.switch)
    random_mirror: bool = option(False, "1 mirrors half of the images", kinds.switch)
    random_resized_crop: bool = option(
        False, "1 crops a random area and aspect, then resizes", kinds.switch
    )
    max_random_h: int = option(0, "largest change of hue, 0 to 180", kinds.count)
    max_random_s: int = option(0, "largest change of saturation, 0 to 255", kinds.count)
    max_random_l: int = option(0, "largest change of lightness, 0 to 255", kinds.count)
    min_random_aspect_ratio: float | None = option(
        None, "smallest aspect ratio of a resized crop", kinds.amount_above_zero
    )
    max_random_aspect_ratio: float = option(0.0, "largest change of aspect ratio", kinds.amount)
    max_random_rotate_angle: int = option(0, "largest rotation, degrees", kinds.count)
    max_random_shear_ratio: float = option(0.0, "largest shear", kinds.amount)
    max_random_scale: float = option(1.0, "largest scale", kinds.amount_above_zero)
    min_random_scale: float = option(
        1.0, "smallest scale; 0.533 takes a shorter edge of 480 to 256", kinds.amount_above_zero
    )
    max_random_area: float = option(1.0, "largest area of a resized crop", kinds.amount_above_zero)
    min_random_area: float = option(1.0, "smallest area of a resized crop", kinds.amount_above_zero)
    brightness: float = option(0.0, "brightness jitter, 0 to 1", kinds.amount)
    contrast: float = option(0.0, "contrast jitter, 0 to 1", kinds.amount)
    saturation: float = option(0.0, "saturation jitter, 0 to 1", kinds.amount)
    pca_noise: float = option(0.0, "noise along the principal colours, 0 to 1", kinds.amount)
    random_erasing: float = option(
        0.0, "part of the images of which a random rectangle gets --fill-value", kinds.amount
    )
    rand_augment_operations: int = option(0, "RandAugment's operations an image", kinds.count)
    rand_augment_magnitude: int = option(9, "their strength, 0 to 30", kinds.count)
    mixup: float = option(0.0, "alpha of mixup, such as 0.2; 0 is off", kinds.amount)
    cutmix: float = option(0.0, "alpha of CutMix, such as 1; 0 is off", kinds.amount)
    off_in_last_epochs: int = option(
        0, "last epochs without any of these; random crops are central there", kinds.count
    )


# Seconds between two checkpoints if none are given; the time that they hold training up is to be a
# small part of it.
EVERY_SECONDS = 600.0
STALLS_PER_INTERVAL = 200


class OutputOptions(OptionGroup):
    """What remains, and from where to go on."""

    output: Path = option(
        Path(),
        "folder that gets attempts/rN/ with checkpoints, logs, model and result",
        kinds.path,
        field="training.output",
    )
    checkpoint_every_epochs: int = option(
        1, "0 is only at the end", kinds.count, field="training.checkpoint.everyEpochs"
    )
    checkpoint_every_seconds: float | None = option(
        None,
        f"also within an epoch, this many seconds apart; absent: {EVERY_SECONDS:g}, or "
        f"{STALLS_PER_INTERVAL} times what a checkpoint holds training up if that is more",
        kinds.amount_above_zero,
        field="training.checkpoint.everySeconds",
    )
    checkpoint_keep: int = option(
        3, "complete checkpoints that stay", kinds.positive, field="training.checkpoint.keep"
    )
    checkpoint_best: Metric | None = option(
        None,
        "keep the checkpoint of the epoch whose validation has the best figure of this name, and "
        "export its model; without it the model of the last epoch",
        choices=METRICS,
        field="training.checkpoint.best.metric",
    )
    init_from: Path | None = option(
        None,
        "a checkpoint's folder (or one that holds some) to start from, of any job",
        kinds.path,
        field="training.checkpoint.initFrom",
        below=IMAGENET_OUTPUT,
    )
    init_from_url: str | None = option(
        None,
        "the same in a bucket: s3://BUCKET/PREFIX of the uploaded results of another job, of an "
        "attempt or of a checkpoint",
        field="training.checkpoint.initFromRemote",
    )
    start_endpoint: str | None = option(
        None,
        "the S3 API of --init-from-url or --pretrained-url; without it AWS's",
        field="training.checkpoint.initFromRemote.s3.endpoint",
    )
    start_region: str | None = option(
        None,
        "the region of that bucket; without it us-east-1",
        field="training.checkpoint.initFromRemote.s3.region",
    )
    model_prefix: str | None = option(
        None,
        "also write PREFIX-symbol.json and PREFIX-NNNN.params, as MXNet's example does",
        kinds.text,
        aliases=("--model",),
    )
    save_period: int = option(1, "epochs between them", kinds.positive)
    load_epoch: int | None = option(
        None, "start from PREFIX-NNNN.params", kinds.count, field="training.checkpoint.initFrom"
    )
    dataset_license: str | None = option(
        None,
        "licence of the images, for the model card",
        kinds.text,
        field="dataset.license",
    )
    disp_batches: int = option(20, "batches between two lines of the log", kinds.positive)
    monitor: int = option(0, "log statistics of weights every N batches; 0 is off", kinds.count)


class ClusterOptions(OptionGroup):
    """How workers come and stay together."""

    # The frameworks that are registered decide what the first three may be.
    framework: str = option("MXNet", "what trains", field="training.framework")
    distribution_strategy: str = option(
        "mirrored",
        "how workers of TensorFlow and PyTorch exchange; mirrored is one worker with all its "
        "devices, and single, PyTorch's default, one process",
        field="training.strategy",
    )
    kv_store: str = option("device", "how MXNet adds gradients up", field="training.strategy")
    gpus: tuple[int, ...] = option(
        (),
        "GPUs of this worker, 0,1,…; none is the CPU",
        kinds.devices,
        field="training.workers.gpus",
    )
    gc_type: str = option("none", "compression of gradients", choices=("none", "2bit"))
    gc_threshold: float = option(0.5, "threshold of 2bit", kinds.amount_above_zero)
    seed: int = option(0, "of weights, order and augmentation", kinds.count)
    deterministic: bool = option(
        False,
        "1 gives the same bits each time, for the same workers and hardware; dist_sync then takes "
        "at most 2 workers",
        kinds.switch,
        field="training.deterministic",
    )
    join_timeout: float = option(
        900,
        "seconds to wait for the scheduler and the other members",
        kinds.amount_above_zero,
        field="runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
    )
    termination_grace: float = option(
        20, "seconds that a checkpoint after SIGTERM may take", kinds.amount
    )


class Options(NamedTuple):
    """The whole command line of a worker, in its groups."""

    model: ModelOptions = ModelOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    data: DataOptions = DataOptions()
    augmentation: AugmentationOptions = AugmentationOptions()
    output: OutputOptions = OutputOptions()
    cluster: ClusterOptions = ClusterOptions()


# By title, which is also the attribute's name, in the order of `--help`.
GROUPS: dict[str, Any] = get_type_hints(Options)

TRAIN: Final = Program(TRAIN_PROGRAM, {"presets": PresetOptions, **GROUPS})
OPTIONS: tuple[Option, ...] = TRAIN.options
"""All options."""


def values_of(options: Options) -> dict[str, Any]:
    """Return the values of the options by name."""
    return {name: value for group in options for name, value in vars(group).items()}
