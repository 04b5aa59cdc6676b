"""A pod of several slots: processes of one job that share the pod's devices and threads.

`launcher` runs them, `shares` gives each its environment, `metrics` shows their metrics as one
page. It serves any framework, and imports none.
"""
