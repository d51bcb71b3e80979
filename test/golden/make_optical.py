"""Rewrites the array `lanczos` of test/golden/optical.json: CRC-32 of what Pillow's Lanczos makes of pictures.

    pip install numpy pillow
    python test/golden/make_optical.py          (Pillow 13)

The pictures come from the formula in `picture`, which the tests repeat. The other arrays are from the release of AgentOCR (`source`).
"""

import json
import pathlib
from zlib import crc32

import numpy as np
from PIL import Image

path = pathlib.Path(__file__).parent / "optical.json"
golden = json.loads(path.read_text())


def picture(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    return ((x * 7 + y * 13 + c * 29 + (x * y) // 3) % 256).astype(np.uint8)


sizes = [((392, 60), (320, 48)), ((392, 36), (215, 28)), ((392, 12), (175, 28)), ((40, 300), (28, 97)), ((30, 20), (84, 56))]
golden["lanczos"] = [
    {"from": a, "to": b, "crc": crc32(np.asarray(Image.fromarray(picture(*a)).resize(b, Image.Resampling.LANCZOS)).tobytes())}
    for a, b in sizes
]
path.write_text(json.dumps(golden) + "\n")
