"""The options of the programs of the pods, each declared once with the field that sets it.

`train` has those of `imagenet-train`, and `presets` its presets; `programs` has the other programs,
and `sources` the options of each kind of source. `option` declares one; from the declaration it
makes a parser and writes a command line. `kinds` reads the values.
"""
