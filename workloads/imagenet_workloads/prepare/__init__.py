"""The preparation, from a raw archive to a sealed dataset: index, pack each shard, seal.

`index` lists a source in place, which one of the kinds in `sources` opens: `stores` give its bytes,
`containers` the images in them, and `layouts` their classes and splits. It drops rare classes,
draws the validation images (`split`), and writes a `plan` under the dataset's key. `pack` writes
one planned shard: it reads each image by its offset, converts it to an RGB JPEG (`transcode`,
`codecs`), and appends it to a file of `records`. `seal` verifies every shard and writes
dataset.json last. All files are written by `files`, under a temporary name until they are complete.
"""
