"""What a decoder frees is used again."""

import subprocess
import sys

DECODING = """
import resource
from concurrent.futures import ThreadPoolExecutor
import cv2, numpy as np, simplejpeg
from imagenet_workloads.commands.pack import keep_freed_memory

keep_freed_memory()
cv2.setNumThreads(1)
noise = np.random.default_rng(0).integers(0, 255, (500, 600, 3), np.uint8)
jpegs = [cv2.imencode(".jpg", noise[:height])[1].tobytes() for height in (300, 375, 500, 340)]

def recode(number):
    pixels = simplejpeg.decode_jpeg(jpegs[number % 4])
    return cv2.imencode(".jpg", cv2.resize(pixels, (640, 480)))[1].tobytes()

with ThreadPoolExecutor(2) as threads:
    list(threads.map(recode, range(100)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(threads.map(recode, range(100)))
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100)
"""


def test_the_kernel_makes_no_new_memory_for_each_image() -> None:
    """Otherwise it makes some 150 pages for one."""
    command = [sys.executable, "-c", DECODING]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(found) < 20
