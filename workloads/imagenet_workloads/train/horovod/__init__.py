"""Horovod without its launcher: pods that find each other, and slots that share a pod.

`slot` is what a process is told by HOROVOD_*; `rendezvous` is the member where slots find each
other; `launcher` runs a pod's slots, each with its `shares` of the pod, and shows their metrics as
one by `aggregation`; `following` lets no slot outlive it. All of it serves any framework.
"""
