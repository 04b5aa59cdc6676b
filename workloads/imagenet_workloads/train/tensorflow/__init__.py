"""Trains with TensorFlow: implements what `learner` asks of a framework.

`framework` is the way in, `network` and `networks` what learns, `optimizers` how weights move,
`strategies` how workers exchange, `data` reads TFRecord files, `saved` and `exported` write. The
loop, checkpoints, evaluation, reports and result are those of the packages above.
"""
