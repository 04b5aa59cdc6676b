"""Layouts give images their class, split and name: a decision by the whole listing of a source.

`survey` is what a listing shows, `decide` the decision, `choice` what the user wrote. They know
images by their paths, and not where these lie: a folder, a tar, a zip and a bucket give a survey of
the same form.
"""
