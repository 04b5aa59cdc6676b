"""Containers give the images of a store by their paths: folders, tars, zips, Parquet files."""
