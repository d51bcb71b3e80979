"""Writes mel.json beside itself: mel bands in decibels of a small power spectrogram, by numpy alone.

    python3 test/golden/plot/make_mel.py    (numpy 1.26)

Independent of the program: the filters are rows of a dense matrix that numpy.interp draws as triangles over the exact
band edges, and the decibels come from one matrix product.
"""
import json
import os

import numpy as np

rng = np.random.default_rng(20240607)
scale = {"rate": 2000, "window": 128, "hop": 32, "bands": 12, "low": 30, "high": 505, "range": 45}
frequencies = np.arange(scale["window"] // 2 + 1) * scale["rate"] / scale["window"]
power = rng.exponential(1.0, (len(frequencies), 6)) * (1 + 40 * np.exp(-(((frequencies - 180) / 25) ** 2)))[:, None]
power[24:30, :] *= 1e-9


def mel(hertz):
    return 2595 * np.log10(1 + np.asarray(hertz) / 700)


edges = 700 * (10 ** (np.linspace(mel(scale["low"]), mel(scale["high"]), scale["bands"] + 2) / 2595) - 1)
bank = np.stack([np.interp(frequencies, edges[i : i + 3], [0, 1, 0]) for i in range(scale["bands"])])
bank /= bank.sum(axis=1, keepdims=True)
means = bank @ power
decibels = np.maximum(-scale["range"], 10 * np.log10(means / means.max()))
out = {
    "source": "numpy " + np.__version__ + ", by make_mel.py",
    "scale": scale,
    "edges": edges.tolist(),
    "power": power.tolist(),
    "decibels": decibels.tolist(),
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mel.json"), "w") as file:
    json.dump(out, file)
    file.write("\n")
