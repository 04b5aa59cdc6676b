"""What a worker trains and is evaluated on, as batches with a known order and a known number.

`interface` is what the loop sees, `choose` picks by the command line, `parts` is the arithmetic of
shares, `record_files` joins shards, `records` reads them with MXNet's ImageRecordIter, `made_up`
is `--benchmark 1`, with the images of `drawn`.
"""
