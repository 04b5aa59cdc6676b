"""The codec that is always available: simplejpeg (libjpeg-turbo) and OpenCV."""

import cv2
import numpy as np
import simplejpeg

from imagenet_workloads.prepare.codecs.codec import (
    Jpeg,
    Packed,
    Pixels,
    Recipe,
    reduction,
    sample_step,
    target_size,
)
from imagenet_workloads.prepare.codecs.perceptual_hash import thumbnail
from imagenet_workloads.prepare.stores.blob import DamagedImageError

# EXIF orientation → the operations that make the stored pixels upright (TIFF 6.0, tag 274).
_UPRIGHT = {
    2: (None, 1),
    3: (cv2.ROTATE_180, None),
    4: (None, 0),
    5: (cv2.ROTATE_90_CLOCKWISE, 1),
    6: (cv2.ROTATE_90_CLOCKWISE, None),
    7: (cv2.ROTATE_90_CLOCKWISE, 0),
    8: (cv2.ROTATE_90_COUNTERCLOCKWISE, None),
}
_SIDEWAYS = frozenset((5, 6, 7, 8))


class OpenCvCodec:
    """Decodes to RGB, resizes linearly as MXNet's im2rec does, encodes with 4:2:0 colours."""

    name = "opencv"

    def recode(self, image: Jpeg, recipe: Recipe) -> Packed:
        height, width = image.height, image.width
        if image.orientation in _SIDEWAYS:
            height, width = width, height
        target = target_size(height, width, recipe.resize)
        factor = reduction(height, width, target)
        pixels = turned(decode(image, factor), image.orientation)
        return encode(pixels, (height, width), target, recipe.quality)


def decode(image: Jpeg, factor: int = 1) -> Pixels:
    """The pixels of a JPEG as height x width x RGB, scaled down by 1, 2, 4 or 8.

    Raises:
        DamagedImageError: libjpeg reports an error or a warning.
    """
    four_inks = image.colours in ("CMYK", "YCCK")
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            image.data,
            colorspace="CMYK" if four_inks else "RGB",
            # libjpeg's largest scale that leaves at least these is exactly `factor`.
            min_height=-(-image.height // factor),
            min_width=-(-image.width // factor),
        )
    except ValueError as error:
        raise DamagedImageError(str(error)) from None
    if not four_inks:
        return pixels
    # In Adobe's inverted CMYK, 255 is no ink.
    colours = pixels[:, :, :3].astype(np.uint16) * pixels[:, :, 3:]
    return ((colours + 127) // 255).astype(np.uint8)


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """The upright pixels, by their EXIF orientation."""
    if orientation not in _UPRIGHT:
        return pixels
    rotation, flip = _UPRIGHT[orientation]
    if rotation is not None:
        pixels = cv2.rotate(pixels, rotation).astype(np.uint8, copy=False)
    if flip is not None:
        pixels = cv2.flip(pixels, flip).astype(np.uint8, copy=False)
    return pixels


def encode(
    pixels: Pixels, original: tuple[int, int], target: tuple[int, int], quality: int
) -> Packed:
    """Resizes RGB pixels of an image that had `original` height and width, and encodes them."""
    if pixels.shape[:2] != target:
        resized = cv2.resize(pixels, (target[1], target[0]), interpolation=cv2.INTER_LINEAR)
        pixels = resized.astype(np.uint8, copy=False)
    # Before the encoding, while the pixels are in the processor's caches.
    points = thumbnail(pixels)
    # simplejpeg has only the fast transform below a quality of 96. With the accurate one, which
    # other encoders use, a picture that they write for prediction has the pixels of its record.
    parameters = [cv2.IMWRITE_JPEG_QUALITY, quality]
    jpeg = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), parameters)[1].tobytes()
    return Packed(jpeg, *target, sample(pixels), original, points)


def sample(pixels: Pixels) -> Pixels:
    """The points of an image on a regular grid."""
    step = sample_step(pixels.shape[0], pixels.shape[1])
    return pixels[::step, ::step]
