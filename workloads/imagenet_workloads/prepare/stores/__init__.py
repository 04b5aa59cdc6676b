"""Stores give bytes: files of a volume, of an HTTP server, objects of a bucket."""
