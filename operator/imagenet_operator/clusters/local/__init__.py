"""This machine as a cluster: pods are processes, claims folders, Service names addresses.

`cluster` combines the modules: `objects` stores objects, `jobs` makes pods of Jobs, `pods`
translates a pod to a command line and environment, and `kubelet` runs pods as processes, with
`pid1`. `machine` allocates what pods need. `state` persists jobs.
"""
