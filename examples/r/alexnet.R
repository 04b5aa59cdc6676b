#!/usr/bin/env Rscript
# Trains AlexNet with TensorFlow from R, on the TFRecord dataset of an ImageNetJob (docs/r.md).
#
#   alexnet.R --batch-size=2048 --epochs=90 --learning-rate=0.01
#
# MultiWorkerMirroredStrategy reads the workers from TF_CONFIG, which the operator sets. The batch is
# the one of all workers together. Each worker reads its own part of the shards.
suppressPackageStartupMessages(library(reticulate))

# The network is AlexNet at 224 pixels. Smaller images get a smaller network.
DEFAULTS <- list(
  `batch-size` = 128, epochs = 2, `learning-rate` = 0.01, `image-size` = 224, filters = 96,
  units = 4096, augment = 1, seed = 0
)

main <- function(options) {
  dataset <- Sys.getenv("IMAGENET_DATASET")
  described <- jsonlite::read_json(file.path(dataset, "dataset.json"))
  config <- jsonlite::fromJSON(Sys.getenv("TF_CONFIG", "{}"))
  workers <- max(1, length(config$cluster$worker))
  is_chief <- workers == 1 || config$task$index == 0
  steps <- lapply(described$splits, function(split) split$images %/% options$`batch-size`)
  check(options, described, workers, steps)

  tf <- import("tensorflow")
  tf$keras$utils$set_random_seed(as.integer(options$seed))
  # Returns when all workers are there.
  strategy <- tf$distribute$MultiWorkerMirroredStrategy()
  # TensorFlow has installed its own handler, which does not end the program.
  end_on_sigterm()

  done <- newest_checkpoint()
  with(strategy$scope(), {
    model <- if (is.null(done$file)) {
      compiled(tf, alexnet(tf, options, length(described$classes)), options)
    } else {
      tf$keras$models$load_model(done$file)
    }
  })
  images <- function(split) {
    strategy$distribute_datasets_from_function(function(context) {
      reader(tf, file.path(dataset, shards(described, split)), split, context, options)
    })
  }
  history <- model$fit(
    images("train"),
    steps_per_epoch = as.integer(steps$train),
    initial_epoch = done$epochs,
    epochs = as.integer(options$epochs),
    validation_data = images("validation"),
    validation_steps = as.integer(steps$validation),
    callbacks = list(tf$keras$callbacks$LambdaCallback(
      on_epoch_end = function(epoch, logs) save_checkpoint(model, epoch + 1L, is_chief)
    )),
    verbose = 2L
  )
  if (is_chief) {
    folder <- results_folder()
    checkpoint <- file.path(folder, sprintf("epoch-%04d.keras", as.integer(options$epochs)))
    if (file.exists(checkpoint)) file.copy(checkpoint, file.path(folder, "model.keras"))
    writeLines(unlist(described$classes), file.path(folder, "classes.txt"))
    report(list(epochs = options$epochs, top1 = tail(unlist(history$history$val_accuracy), 1)))
  }
}

read_options <- function(options) {
  for (argument in commandArgs(trailingOnly = TRUE)) {
    name <- sub("^--([a-z-]+)=.*$", "\\1", argument)
    value <- suppressWarnings(as.numeric(sub("^[^=]*=", "", argument)))
    if (!(name %in% names(options)) || is.na(value)) {
      known <- paste0("--", names(options), "=NUMBER", collapse = " ")
      stop(sprintf("%s is not an option; write %s", argument, known), call. = FALSE)
    }
    options[[name]] <- value
  }
  options
}

check <- function(options, described, workers, steps) {
  if (described$format != "TFRecord") {
    stop("the dataset is RecordIO; write preprocessing.format: TFRecord", call. = FALSE)
  }
  if (options$`batch-size` %% workers != 0) {
    stop(sprintf("--batch-size does not divide by the %d workers", workers), call. = FALSE)
  }
  if (min(unlist(steps)) < 1) {
    stop("--batch-size is larger than a split of the dataset; write less", call. = FALSE)
  }
}

shards <- function(described, split) {
  sapply(described$splits[[split]]$shards, function(shard) shard$record)
}

# AlexNet as the R tutorial has it, but with padding, so that small images do not vanish.
alexnet <- function(tf, options, classes) {
  layers <- tf$keras$layers
  size <- as.integer(options$`image-size`)
  filters <- as.integer(options$filters * c(1, 256 / 96, 4, 4, 256 / 96))
  units <- as.integer(options$units)
  convolution <- function(number, kernel, strides = 1L) {
    layers$Conv2D(
      filters[number], kernel, strides = strides, padding = "same", activation = "relu"
    )
  }
  pool <- function() layers$MaxPooling2D(2L, padding = "same")
  tf$keras$Sequential(list(
    layers$InputLayer(tuple(size, size, 3L)),
    convolution(1, 11L, strides = 4L), pool(),
    convolution(2, 5L), pool(),
    convolution(3, 3L), convolution(4, 3L), convolution(5, 3L), pool(),
    layers$Flatten(),
    layers$Dense(units, activation = "relu"), layers$Dropout(0.5),
    layers$Dense(units, activation = "relu"), layers$Dropout(0.5),
    layers$Dense(classes, activation = "softmax")
  ))
}

compiled <- function(tf, model, options) {
  model$compile(
    optimizer = tf$keras$optimizers$SGD(options$`learning-rate`, momentum = 0.9),
    loss = "sparse_categorical_crossentropy",
    metrics = list("accuracy")
  )
  model
}

# The batches of one worker, again and again. It reads its part of the shards. If the shards cannot
# be divided, it reads all and drops what is not its part.
reader <- function(tf, files, split, context, options) {
  batch <- context$get_per_replica_batch_size(as.integer(options$`batch-size`))
  features <- dict(
    `image/encoded` = tf$io$FixedLenFeature(list(), tf$string),
    `image/class/label` = tf$io$FixedLenFeature(list(), tf$int64)
  )
  size <- as.integer(rep(options$`image-size`, 2))
  decoded <- function(record) {
    parsed <- tf$io$parse_single_example(record, features)
    image <- tf$io$decode_jpeg(parsed[["image/encoded"]], channels = 3L)
    image <- tf$image$resize(tf$image$convert_image_dtype(image, tf$float32), size)
    if (split == "train" && options$augment > 0) image <- augmented(tf, image)
    label <- tf$cast(parsed[["image/class/label"]], tf$int32)
    tuple(image, tf$subtract(label, 1L)) # 0 is the background
  }
  part <- function(data) data$shard(context$num_input_pipelines, context$input_pipeline_id)
  has_own_files <- length(files) %% context$num_input_pipelines == 0
  data <- tf$data$Dataset$from_tensor_slices(as.list(files))
  if (has_own_files) data <- part(data)
  data <- data$interleave(tf$data$TFRecordDataset, cycle_length = 4L)
  if (!has_own_files) data <- part(data)
  if (split == "train") data <- data$shuffle(16L * batch)
  data$map(decoded, num_parallel_calls = 2L)$batch(batch)$`repeat`()$prefetch(2L)
}

augmented <- function(tf, image) {
  image <- tf$image$random_brightness(image, max_delta = 0.3)
  image <- tf$image$random_contrast(image, lower = 0.5, upper = 1.5)
  image <- tf$image$random_saturation(image, lower = 0.5, upper = 1.5)
  tf$clip_by_value(image, 0, 1)
}

# All workers save, because saving may need their sums; only the chief's file is kept. It is
# written to a temporary name, so that a kill leaves no half-written file. The newest two stay.
save_checkpoint <- function(model, epochs, is_chief) {
  folder <- if (is_chief) results_folder() else Sys.getenv("IMAGENET_SCRATCH")
  temporary <- file.path(folder, ".saving.keras")
  model$save(temporary)
  if (is_chief) {
    file.rename(temporary, file.path(folder, sprintf("epoch-%04d.keras", epochs)))
    file.remove(head(checkpoints(folder), -2))
  }
}

checkpoints <- function(folder) {
  sort(list.files(folder, "^epoch-[0-9]+[.]keras$", full.names = TRUE))
}

# The model of the newest attempt that finished an epoch, with its optimizer.
newest_checkpoint <- function() {
  for (attempt in rev(seq_len(as.integer(Sys.getenv("IMAGENET_ATTEMPT"))) - 1L)) {
    folder <- file.path(Sys.getenv("IMAGENET_RESULTS"), "attempts", paste0("r", attempt))
    found <- checkpoints(folder)
    if (length(found) > 0) {
      newest <- tail(found, 1)
      cat("goes on from", newest, "\n")
      return(list(file = newest, epochs = as.integer(sub("^.*-([0-9]+)[.]keras$", "\\1", newest))))
    }
  }
  list(file = NULL, epochs = 0L)
}

results_folder <- function() {
  attempt <- paste0("r", Sys.getenv("IMAGENET_ATTEMPT"))
  folder <- file.path(Sys.getenv("IMAGENET_RESULTS"), "attempts", attempt)
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  folder
}

# The job's status shows these figures.
report <- function(figures) {
  jsonlite::write_json(figures, Sys.getenv("IMAGENET_TERMINATION_LOG"), auto_unbox = TRUE)
}

# A container's first process ends on SIGTERM only with a handler.
end_on_sigterm <- function() {
  py_run_string("import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(143))")
}

options <- read_options(DEFAULTS)
end_on_sigterm()
main(options)
