"""How workers exchange: one strategy a file, behind the interface that the training loop sees.

`interface` says what a strategy does, `choose` picks one by the command line, and each other module
is one way: `single` for one process, `synchronous` and `asynchronous` over a parameter server.
"""
