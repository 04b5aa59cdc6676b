"""The way of a record from its shard to a step, the same for every framework; knows no trainer.

`order` says which record is trained at which position of an epoch. `windows` reads windows of
records (`records.split` or `records.remote`) into shared memory (`memory`). `decoders` are threads
or programs. Each turns records into images (`decoder`): `jpeg` decodes them, `augmentation` varies
them, and a layout (`layouts`) puts them into a slot of the memory, which is used again. `batches`
begins the next ones ahead. `ordered_data` opens all that for a command line, as the `worker_data`
of the training loop; `synthetic_data` needs no records. A framework wraps batches in its own
arrays:

    records = open_split(dataset.train, dataset.format, folder)  # or open_paths("a.rec;b.rec")
    recipe = Recipe((3, 224, 224), augmentation_options)
    share = WorkerShare(worker=0, workers=8, batch_size_per_process=256, seed=0)
    decoding = Decoding(decoders=available_cores())
    training = OrderedTraining(records, recipe, share, decoding)
    for batch in training.epoch(number=0, position=0):
        batch.images, batch.labels, batch.count  # (256, 224, 224, 3) uint8, (256,) int64, 256
    training.close()
    decoding.close()

`epoch` starts at any position, which is how many images all workers have trained of it. It yields
`batches_per_epoch` batches, less those before that position. The images of one are overwritten once
the next one is asked for.

Imports no framework.
"""
