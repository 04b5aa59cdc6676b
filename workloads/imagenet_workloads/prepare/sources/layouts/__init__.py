"""How the images of a listed source get their classes and splits: a decision by the whole listing.

`survey` is what a listing shows, `decide` the decision, `choice` what the user wrote. All of it is
pure: a folder, a tar, a zip and a bucket give a survey of the same form.
"""
