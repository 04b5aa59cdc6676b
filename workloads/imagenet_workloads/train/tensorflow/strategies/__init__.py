"""How TensorFlow's workers exchange: one strategy a file, found by its name.

`interface` says what a strategy does, `distributed` is what tf.distribute's two have in common, and
each other module is one, with a function `join() -> Strategy`.
"""
