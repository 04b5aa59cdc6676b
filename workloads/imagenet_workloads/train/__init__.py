"""What every framework shares of distributed training; it imports none of them.

`worker` is one worker until its framework may start, `trainer` its training: `resume` finds where
to go on, `loop` trains and evaluates, `checkpointer` saves, `reporter` reports, and `result`
is what stays. `framework`, `group` and `data.worker_data` are the protocols that a package of
`frameworks` implements. `command_line` reads the options, and `description` is what a framework
says of itself.
"""
