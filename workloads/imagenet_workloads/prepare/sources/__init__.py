"""Kinds of sources: their options, how they are opened, and the cache. `kinds` has all of them."""
