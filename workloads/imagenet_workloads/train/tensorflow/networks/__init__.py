"""The networks that TensorFlow trains, as Keras models from images to scores (no softmax).

`catalogue` is the only way in; each other module is one family, found by its name, and knows
nothing of the others. The catalogue is import-light, the families import TensorFlow.
"""
