"""From a raw archive to a sealed dataset: index, then pack once a shard, then seal.

`index` lists the source in place (`sources`), drops rare classes and draws the validation images
(`split`), and leaves a `plan` under the dataset's `key`. `pack` writes one planned shard: it reads
each image by its offset, makes an RGB JPEG of it (`transcode`, `codecs`), and appends it to a file
of records (`formats`). `seal` checks every shard and writes dataset.json last. Whatever they write
goes through `atomic_files`, under a temporary name until it is whole.
"""
