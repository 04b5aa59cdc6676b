"""Where raw images come from: one kind of source a file, all behind `interface.Source`.

`detect` tells which kind a path is. None extracts anything: a scan yields where each image lies,
and `pack` reads it there.
"""
