#!/usr/bin/env Rscript
# Trains LeNet with MXNet from R, on the RecordIO dataset of an ImageNetJob (docs/r.md).
#
#   lenet.R --batch-size=64 --epochs=5 --learning-rate=0.05
#
# The workers exchange gradients by the servers that the operator starts (kvStore: dist_sync). With
# the strategy `single` there are none. The batch is the one of all workers together.
suppressPackageStartupMessages(library(reticulate))

# MXNet's threads would abort an ordinary exit of R, or wait for peers that are gone.
leave <- function(code) {
  flush(stdout())
  import("os")$`_exit`(code)
}

DEFAULTS <- list(`batch-size` = 64, epochs = 5, `learning-rate` = 0.05)

main <- function(options) {
  dataset <- Sys.getenv("IMAGENET_DATASET")
  described <- jsonlite::read_json(file.path(dataset, "dataset.json"))
  mx <- import("mxnet")

  is_single <- Sys.getenv("DMLC_ROLE") == ""
  # Returns when all workers and servers are there.
  store <- mx$kv$create(if (is_single) "local" else "dist_sync")
  rank <- store$rank
  batch <- options$`batch-size` %/% store$num_workers

  # Every worker takes the same number of steps, whatever its part of the records is.
  images <- reader(mx, dataset, described, "train", batch, rank, store$num_workers)
  steps <- described$splits$train$images %/% (batch * store$num_workers)
  module <- mx$mod$Module(lenet(mx, length(described$classes)))
  metric <- mx$metric$create("acc")
  done <- newest_checkpoint(mx)
  module$fit(
    mx$io$ResizeIter(images, as.integer(steps)),
    eval_metric = metric,
    epoch_end_callback = if (rank == 0) save_checkpoint(mx),
    kvstore = store,
    arg_params = done$weights,
    begin_epoch = done$epochs,
    optimizer = "sgd",
    optimizer_params = dict(
      learning_rate = options$`learning-rate`, momentum = 0.9,
      rescale_grad = 1 / (batch * store$num_workers)
    ),
    initializer = mx$init$Xavier(),
    num_epoch = as.integer(options$epochs)
  )
  validation <- reader(mx, dataset, described, "validation", batch, 0L, 1L)
  accuracy <- module$score(validation, metric)[[1]][[2]]
  cat(sprintf("worker %d of %d: validation accuracy %.4f\n", rank, store$num_workers, accuracy))

  if (rank == 0) {
    writeLines(unlist(described$classes), file.path(results_folder(), "classes.txt"))
    report(list(epochs = options$epochs, top1 = accuracy))
  }
  # No worker leaves while another one still needs the servers.
  store$`_barrier`()
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

# A worker of n reads an nth of the bytes of all shards.
reader <- function(mx, dataset, described, split, batch, part, parts) {
  shards <- sapply(described$splits[[split]]$shards, function(shard) shard$record)
  mean <- unlist(described$mean)
  std <- unlist(described$std)
  mx$io$ImageRecordIter(
    path_imgrec = paste(file.path(dataset, shards), collapse = ";"),
    data_shape = tuple(3L, 28L, 28L),
    resize = 28L,
    batch_size = as.integer(batch),
    part_index = as.integer(part),
    num_parts = as.integer(parts),
    shuffle = split == "train",
    round_batch = split == "train",
    mean_r = mean[1], mean_g = mean[2], mean_b = mean[3],
    std_r = std[1], std_g = std[2], std_b = std[3],
    preprocess_threads = 1L,
    verbose = FALSE
  )
}

lenet <- function(mx, classes) {
  body <- mx$sym$Variable("data")
  for (filters in c(20L, 50L)) {
    body <- mx$sym$Convolution(body, kernel = tuple(5L, 5L), num_filter = filters)
    body <- mx$sym$Activation(body, act_type = "tanh")
    body <- mx$sym$Pooling(
      body, pool_type = "max", kernel = tuple(2L, 2L), stride = tuple(2L, 2L)
    )
  }
  body <- mx$sym$FullyConnected(mx$sym$Flatten(body), num_hidden = 500L)
  body <- mx$sym$Activation(body, act_type = "tanh")
  body <- mx$sym$FullyConnected(body, num_hidden = as.integer(classes))
  mx$sym$SoftmaxOutput(body, name = "softmax")
}

# Written to a temporary name, so that a kill leaves no half-written file.
save_checkpoint <- function(mx) {
  function(epoch, symbol, weights, states) {
    prefix <- file.path(results_folder(), "lenet")
    symbol$save(paste0(prefix, "-symbol.json"))
    mx$nd$save(paste0(prefix, ".tmp"), setNames(weights, paste0("arg:", names(weights))))
    file.rename(paste0(prefix, ".tmp"), sprintf("%s-%04d.params", prefix, epoch + 1L))
  }
}

# The weights of the newest attempt that finished an epoch. Momentum starts at zero.
newest_checkpoint <- function(mx) {
  for (attempt in rev(seq_len(as.integer(Sys.getenv("IMAGENET_ATTEMPT"))) - 1L)) {
    folder <- file.path(Sys.getenv("IMAGENET_RESULTS"), "attempts", paste0("r", attempt))
    found <- sort(list.files(folder, "^lenet-[0-9]+[.]params$", full.names = TRUE))
    if (length(found) > 0) {
      newest <- tail(found, 1)
      cat("goes on from", newest, "\n")
      weights <- mx$nd$load(newest)
      return(list(
        weights = setNames(weights, sub("^arg:", "", names(weights))),
        epochs = as.integer(sub("^.*-([0-9]+)[.]params$", "\\1", newest))
      ))
    }
  }
  list(weights = NULL, epochs = 0L)
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
tryCatch(main(options), error = function(error) {
  message("error: ", conditionMessage(error))
  leave(1L)
})
leave(0L)
