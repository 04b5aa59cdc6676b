"""The files that are generated from the resource: CRD, admission policy and reference.

Only a checkout of the repository runs it: ``make generate``.
"""
