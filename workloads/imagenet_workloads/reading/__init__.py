"""Reads records for training in the order of `train.order`, the same for every framework.

`records` finds the records of RecordIO and TFRecord files, and `record_formats` takes them apart.
`lane_reader` reads windows of them. `decode` and `augmentation` turn a JPEG into pixels. `batches`
does all of that ahead, in threads. A framework wraps the batches in its own arrays:

    records = open_split(dataset.train, dataset.format, folder)  # or open_paths("a.rec;b.rec")
    recipe = Recipe((3, 224, 224), augmentation_options)
    share = WorkerShare(worker=0, workers=8, batch_size_per_process=256, seed=0)
    training = OrderedTraining(records, recipe, share, threads=available_cores())
    for batch in training.epoch(number=0, position=0):
        batch.images, batch.labels, batch.count  # (256, 224, 224, 3) uint8, (256,) int64, 256

`epoch` starts at any position, which is how many images all workers have trained of it. It yields
`batches_per_epoch` batches, less those before that position.

Imports no framework.
"""
