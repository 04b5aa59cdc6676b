"""The decisions: from a job and what is observed around it to what should be done.

`observe.sort` sorts children into buckets, `decide.decide` is pure and says what to create and
delete, the new status, the events and when to look again; a cluster (`clusters/`) applies it.
"""
