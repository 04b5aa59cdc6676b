"""All metrics that a workload exports: name, type, unit and help.

The workloads export them, the operator reads some of them, and docs/telemetry.md lists all.
"""

from enum import StrEnum
from typing import NamedTuple

ROLE_LABEL = "role"
ATTEMPT_LABEL = "attempt"
# The labels of every series, with a prefix because Prometheus uses `job` for the scrape
# configuration.
LABELS = ("imagenet_job", "namespace", ROLE_LABEL, ATTEMPT_LABEL)

PHASE_LABEL = "phase"
# A pod of several slots has it on the series that are not added up over its slots.
SLOT_LABEL = "slot"

# From a digits batch on a CPU (milliseconds) to a large batch with mirroring on (a minute).
STEP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# A pipeline that is fast enough waits much less than a millisecond.
WAIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class MetricType(StrEnum):
    """Prometheus's types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: The scraped name; a histogram's series add _bucket, _sum and _count.
        kind: Its type.
        unit: The unit of its value.
        help: One sentence, which Prometheus shows beside the name.
        buckets: The upper bounds of a histogram's buckets, in `unit`; empty otherwise.
        labels: of its series, beyond LABELS.
    """

    name: str
    kind: MetricType
    unit: str
    help: str
    buckets: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def sum_series(self) -> str:
        """The series of a histogram with the sum of its observations."""
        return f"{self.name}_sum"

    @property
    def count_series(self) -> str:
        """The series of a histogram with the number of its observations."""
        return f"{self.name}_count"


class Phase(StrEnum):
    """What a worker does, one thing after the other: the label `phase`."""

    RESUMING = "resuming"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"
    EXPORTING = "exporting"
    ENDING = "ending"


class TimePhase(StrEnum):
    """What the time of a worker goes to: the label `phase` of TRAIN_SECONDS."""

    STARTING = "starting"
    JOINING = "joining"
    RESTORING = "restoring"
    DATA = "data"
    STEPPING = "stepping"
    REDONE = "redone"
    EVALUATING = "evaluating"
    CHECKPOINTING = "checkpointing"
    EXPORTING = "exporting"
    ENDING = "ending"


TRAIN_IMAGES = Metric(
    "imagenet_train_images_total",
    MetricType.COUNTER,
    "images",
    "Images that this worker has trained on.",
)
TRAIN_IMAGES_PER_SECOND = Metric(
    "imagenet_train_images_per_second",
    MetricType.GAUGE,
    "images per second",
    "Speed of this worker over its last display interval; a job's speed is the sum of its workers.",
)
TRAIN_STEP_SECONDS = Metric(
    "imagenet_train_step_seconds",
    MetricType.HISTOGRAM,
    "seconds",
    "Time of one training step, waiting for its data included.",
    STEP_BUCKETS,
)
TRAIN_DATA_WAIT_SECONDS = Metric(
    "imagenet_train_data_wait_seconds",
    MetricType.HISTOGRAM,
    "seconds",
    "Time of one training step that was spent waiting for its data.",
    WAIT_BUCKETS,
)
TRAIN_READ_WAIT = Metric(
    "imagenet_train_read_wait_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Waits of steps for records that were still being read from a disk or a server.",
)
TRAIN_DECODE_WAIT = Metric(
    "imagenet_train_decode_wait_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Waits of steps for images whose records had been read.",
)
TRAIN_DECODERS = Metric(
    "imagenet_train_decoders_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Time that all decoders have spent on images together.",
)
TRAIN_DECODERS_CPU = Metric(
    "imagenet_train_decoders_cpu_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Of imagenet_train_decoders_seconds_total, the time of processors; decoders that are threads "
    "do not report it.",
)
TRAIN_THROTTLED = Metric(
    "imagenet_train_throttled_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Time for which the CPU limit of the pod has stopped its threads, added up over processors; "
    "absent where no control group says it.",
)
TRAIN_LAUNCHED_STEPS = Metric(
    "imagenet_train_launched_steps_total",
    MetricType.COUNTER,
    "steps",
    "Steps with an update of which is known whether the GPU waited for the program; absent on CPUs "
    "and where the framework does not say it.",
)
TRAIN_STARVED_STEPS = Metric(
    "imagenet_train_starved_steps_total",
    MetricType.COUNTER,
    "steps",
    "Of imagenet_train_launched_steps_total, those whose gradients the GPU had computed before the "
    "program had launched the update.",
)
TRAIN_GPU_UTILIZATION = Metric(
    "imagenet_train_gpu_utilization_ratio",
    MetricType.GAUGE,
    "ratio",
    "Fraction of the last second in which a kernel ran, mean over the GPUs of this worker, as "
    "NVIDIA's driver measures it; absent on CPUs and where the driver does not say it.",
)
TRAIN_LOOP_CPU = Metric(
    "imagenet_train_loop_cpu_seconds",
    MetricType.GAUGE,
    "seconds",
    "Median CPU time of the training thread in a step, outside the framework's calls; over "
    "the last 1,000 steps without a checkpoint or a receipt.",
)
TRAIN_COMPILED = Metric(
    "imagenet_train_compiled",
    MetricType.GAUGE,
    "1",
    "Whether compiled code trains (1), or the network itself because compiling failed or there is "
    "no compiler (0); absent where compiled code was not chosen.",
)
TRAIN_CHECKPOINT_STALL = Metric(
    "imagenet_train_checkpoint_stall_seconds",
    MetricType.GAUGE,
    "seconds",
    "Time above the median step, summed over the steps during which a checkpoint or its receipt is "
    "copied, written or hashed; mean of the checkpoints of this worker, which has rank 0.",
)
TRAIN_CHECKPOINT_INTERVAL = Metric(
    "imagenet_train_checkpoint_interval_seconds",
    MetricType.GAUGE,
    "seconds",
    "Time from one checkpoint to the next within an epoch, as it is in force.",
)
TRAIN_BEFORE_EXCHANGE = Metric(
    "imagenet_train_before_exchange_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Time of this worker from asking for a batch until its gradients were ready for the exchange "
    "with the other workers. A pod with several slots has a series for each, with the label slot.",
)
TRAIN_EXCHANGES = Metric(
    "imagenet_train_exchanges_total",
    MetricType.COUNTER,
    "exchanges",
    "Exchanges of gradients that imagenet_train_before_exchange_seconds_total has counted.",
)
TRAIN_EPOCH = Metric(
    "imagenet_train_epoch", MetricType.GAUGE, "epochs", "The current epoch, from 0."
)
TRAIN_EPOCHS = Metric(
    "imagenet_train_epochs", MetricType.GAUGE, "epochs", "Total number of epochs of the training."
)
TRAIN_BATCH = Metric(
    "imagenet_train_batch", MetricType.GAUGE, "batches", "Finished batches of the current epoch."
)
TRAIN_BATCHES_PER_EPOCH = Metric(
    "imagenet_train_batches_per_epoch",
    MetricType.GAUGE,
    "batches",
    "Batches of this worker in one epoch.",
)
TRAIN_CHECKPOINT_EPOCH = Metric(
    "imagenet_train_checkpoint_epoch",
    MetricType.GAUGE,
    "epochs",
    "Finished epochs of the newest checkpoint that this worker, of rank 0, has written.",
)
TRAIN_UNSAVED_SECONDS = Metric(
    "imagenet_train_unsaved_seconds",
    MetricType.GAUGE,
    "seconds",
    "Seconds of this worker's steps, of rank 0, since its newest checkpoint or its start, without "
    "the wait for data.",
)
TRAIN_LOSS = Metric(
    "imagenet_train_loss",
    MetricType.GAUGE,
    "nats",
    "Mean cross-entropy over the training images of the epoch so far.",
)
TRAIN_TOP1 = Metric(
    "imagenet_train_top1",
    MetricType.GAUGE,
    "ratio",
    "Top-1 accuracy over the training images of the epoch so far.",
)
TRAIN_TOP5 = Metric(
    "imagenet_train_top5",
    MetricType.GAUGE,
    "ratio",
    "Top-5 accuracy over the training images of the epoch so far.",
)
TRAIN_VALIDATION_TOP1 = Metric(
    "imagenet_train_validation_top1",
    MetricType.GAUGE,
    "ratio",
    "Top-1 accuracy over all validation images, after the last finished epoch.",
)
TRAIN_VALIDATION_TOP5 = Metric(
    "imagenet_train_validation_top5",
    MetricType.GAUGE,
    "ratio",
    "Top-5 accuracy over all validation images, after the last finished epoch.",
)
TRAIN_LEARNING_RATE = Metric(
    "imagenet_train_learning_rate", MetricType.GAUGE, "1", "The optimizer's learning rate."
)
TRAIN_RANK = Metric(
    "imagenet_train_rank",
    MetricType.GAUGE,
    "1",
    "This worker's rank, which may differ from its pod's index; "
    "a job's loss and accuracy are those of rank 0.",
)
TRAIN_PHASE = Metric(
    "imagenet_train_phase",
    MetricType.GAUGE,
    "1",
    "1 for the phase that this worker is in, 0 for those before.",
    labels=(PHASE_LABEL,),
)
TRAIN_PHASE_WORK = Metric(
    "imagenet_train_phase_work_total",
    MetricType.COUNTER,
    "units",
    "Work of this worker in each phase: batches trained, read past or evaluated, files checked, "
    "and seconds in which files grew. The operator takes its increase for progress.",
    labels=(PHASE_LABEL,),
)
TRAIN_SECONDS = Metric(
    "imagenet_train_seconds_total",
    MetricType.COUNTER,
    "seconds",
    "Time of this worker by phase, since its process started. A step counts when it is complete. "
    "A job's account is that of rank 0.",
    labels=(PHASE_LABEL,),
)

PREPARE_IMAGES = Metric(
    "imagenet_prepare_images_total",
    MetricType.COUNTER,
    "images",
    "Images that this pod has listed (role index) or written (role pack).",
)
PREPARE_IMAGES_PLANNED = Metric(
    "imagenet_prepare_images_planned",
    MetricType.GAUGE,
    "images",
    "Images that this pod will process, damaged ones included; an estimate while it lists.",
)
PREPARE_BYTES = Metric(
    "imagenet_prepare_bytes_total",
    MetricType.COUNTER,
    "bytes",
    "Bytes of records that this pod has written.",
)
PREPARE_SKIPPED_IMAGES = Metric(
    "imagenet_prepare_skipped_images_total",
    MetricType.COUNTER,
    "images",
    "Damaged images that this pod has skipped.",
)
PREPARE_REQUESTS = Metric(
    "imagenet_prepare_requests_total",
    MetricType.COUNTER,
    "requests",
    "Requests of this pod that the server or bucket of the images has answered.",
)
PREPARE_READ_BYTES = Metric(
    "imagenet_prepare_read_bytes_total",
    MetricType.COUNTER,
    "bytes",
    "Bytes that this pod has read from the server or bucket of the images.",
)
PREPARE_LISTING_REQUESTS = Metric(
    "imagenet_prepare_listing_requests",
    MetricType.GAUGE,
    "requests",
    "Requests that listing the archive on the server takes, estimated before it begins.",
)
PREPARE_LISTING_BYTES = Metric(
    "imagenet_prepare_listing_bytes",
    MetricType.GAUGE,
    "bytes",
    "Bytes that listing the archive on the server reads, estimated before it begins.",
)
PREPARE_LISTING_SECONDS = Metric(
    "imagenet_prepare_listing_seconds",
    MetricType.GAUGE,
    "seconds",
    "Time that listing the archive on the server takes, estimated before it begins.",
)
PREPARE_PACKING_REQUESTS = Metric(
    "imagenet_prepare_packing_requests",
    MetricType.GAUGE,
    "requests",
    "Requests by which pack reads the images of the archive on the server, estimated by index.",
)
PREPARE_PACKING_BYTES = Metric(
    "imagenet_prepare_packing_bytes",
    MetricType.GAUGE,
    "bytes",
    "Bytes that pack reads of the archive on the server, estimated by index.",
)
PREPARE_PACKING_SECONDS = Metric(
    "imagenet_prepare_packing_seconds",
    MetricType.GAUGE,
    "seconds",
    "Time in which one pod of pack reads the images from the server, estimated by index.",
)
PREPARE_FETCHED_BYTES = Metric(
    "imagenet_prepare_fetched_bytes",
    MetricType.GAUGE,
    "bytes",
    "Bytes of the source's files that are in the cache, those of earlier pods included.",
)
PREPARE_FETCH_PLANNED_BYTES = Metric(
    "imagenet_prepare_fetch_planned_bytes",
    MetricType.GAUGE,
    "bytes",
    "Bytes of all files of the source that the cache will hold.",
)
PREPARE_FETCH_FILES = Metric(
    "imagenet_prepare_fetch_files",
    MetricType.GAUGE,
    "files",
    "Files of the source that the cache will hold.",
)
PREPARE_FETCH_ASKED_FILES = Metric(
    "imagenet_prepare_fetch_asked_files",
    MetricType.GAUGE,
    "files",
    "Files whose version the server has given, or needs not give. Then the bytes of all are known.",
)
PREPARE_SHARD_PROGRESS = Metric(
    "imagenet_prepare_shard_progress_ratio",
    MetricType.GAUGE,
    "ratio",
    "Fraction of the planned images that are written or skipped.",
)
PREPARE_DECODED_IMAGES_PER_SECOND = Metric(
    "imagenet_prepare_decoded_images_per_second",
    MetricType.GAUGE,
    "images per second",
    "Images of the shard that one core decodes in a second, measured with a few of them.",
)

PEER_REQUESTS_REFUSED = Metric(
    "imagenet_peer_requests_refused_total",
    MetricType.COUNTER,
    "requests",
    "Requests of peers that this server or rendezvous has refused, because no worker sends such.",
)

TRAINING = (
    TRAIN_IMAGES,
    TRAIN_IMAGES_PER_SECOND,
    TRAIN_STEP_SECONDS,
    TRAIN_DATA_WAIT_SECONDS,
    TRAIN_READ_WAIT,
    TRAIN_DECODE_WAIT,
    TRAIN_DECODERS,
    TRAIN_LOOP_CPU,
    TRAIN_BEFORE_EXCHANGE,
    TRAIN_EXCHANGES,
    TRAIN_EPOCH,
    TRAIN_EPOCHS,
    TRAIN_BATCH,
    TRAIN_BATCHES_PER_EPOCH,
    TRAIN_LOSS,
    TRAIN_TOP1,
    TRAIN_TOP5,
    TRAIN_VALIDATION_TOP1,
    TRAIN_VALIDATION_TOP5,
    TRAIN_LEARNING_RATE,
    TRAIN_RANK,
    TRAIN_PHASE,
    TRAIN_PHASE_WORK,
    TRAIN_SECONDS,
)
# Of rank 0 alone, from its first checkpoint or step on.
CHECKPOINTS = (
    TRAIN_CHECKPOINT_EPOCH,
    TRAIN_UNSAVED_SECONDS,
    TRAIN_CHECKPOINT_STALL,
    TRAIN_CHECKPOINT_INTERVAL,
)
# Where decoders are programs, where a control group, the framework or a driver says it.
MEASURED = (
    TRAIN_DECODERS_CPU,
    TRAIN_THROTTLED,
    TRAIN_LAUNCHED_STEPS,
    TRAIN_STARVED_STEPS,
    TRAIN_GPU_UTILIZATION,
    TRAIN_COMPILED,
)
PREPARATION = (
    PREPARE_IMAGES,
    PREPARE_IMAGES_PLANNED,
    PREPARE_BYTES,
    PREPARE_SKIPPED_IMAGES,
    PREPARE_REQUESTS,
    PREPARE_READ_BYTES,
    PREPARE_LISTING_REQUESTS,
    PREPARE_LISTING_BYTES,
    PREPARE_LISTING_SECONDS,
    PREPARE_PACKING_REQUESTS,
    PREPARE_PACKING_BYTES,
    PREPARE_PACKING_SECONDS,
    PREPARE_FETCHED_BYTES,
    PREPARE_FETCH_PLANNED_BYTES,
    PREPARE_FETCH_FILES,
    PREPARE_FETCH_ASKED_FILES,
    PREPARE_SHARD_PROGRESS,
    PREPARE_DECODED_IMAGES_PER_SECOND,
)
RENDEZVOUS = (PEER_REQUESTS_REFUSED,)
ALL = TRAINING + CHECKPOINTS + MEASURED + PREPARATION + RENDEZVOUS
