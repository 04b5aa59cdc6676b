"""Clients of file servers (`http`) and of buckets with an S3 API (`s3`), with what both share.

Preparation reads sources by them, and training reads prepared datasets.
"""
