"""The policies: each module has a few pure functions that the steps of `decide` call."""
