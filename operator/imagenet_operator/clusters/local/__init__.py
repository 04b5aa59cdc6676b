"""This machine as a cluster: a pod is a process, a claim a folder, a Service name an address.

`cluster.py` ties the parts: `objects.py` (what exists), `jobs.py` (Jobs become pods), `pods.py` (a
pod's manifest becomes a command line and an environment), `kubelet.py` (pods run and end) on
`process.py` and `pid1.py`; `addresses.py`, `gpus.py` and `volumes.py` are what pods are given;
`state.py` is what outlives a run.
"""
