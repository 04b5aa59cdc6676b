"""One policy a file: each a few pure functions that `decide` calls in the order of its story."""
