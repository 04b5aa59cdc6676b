"""The options of the programs: `train` has those of `imagenet-train`, `presets` its presets.

`option` declares one and makes argparse's arguments of them, `kinds` reads the values.
"""
