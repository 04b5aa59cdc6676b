"""Training data from TFRecord files by tf.data: shares, augmentation, batches.

`choose` picks by the command line, `pieces` says which records are whose, `records` reads them,
`decode` and `vary` make a network's input of one.
"""
