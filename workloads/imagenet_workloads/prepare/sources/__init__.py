"""Sources of raw images: stores and containers, each listed by its paths. `kinds` has all kinds."""
