"""The decisions: from a job and what is observed around it to what should be done.

`observe.sort` sorts children into buckets, `decide.decide` is pure and returns what to create and
delete, the new status, the events and when to reconcile again. A cluster (`clusters/`) applies it.
"""
