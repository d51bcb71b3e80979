"""Golden scores of sub-PCA by numpy: python3 make_sub_pca.py > sub_pca.json

Windows as rows, less their mean; eigenvectors of their covariance; the fewest of the largest that explain a share of the variance; the root
mean square of what they leave of each window. Windows longer than 48 samples are means of 48 pieces.
"""

import json

import numpy as np


def pieces(window):
    count = min(window, 48)
    return [int(np.floor(k * window / count + 0.5)) for k in range(count + 1)]


def scores(x, window, explained):
    bounds = pieces(window)
    rows = np.array(
        [
            [x[i + a : i + b].mean() for a, b in zip(bounds, bounds[1:])]
            for i in range(len(x) - window + 1)
        ]
    )
    rows = rows - rows.mean(axis=0)
    variances, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    variances, vectors = variances[::-1], vectors[:, ::-1]
    kept = int(np.searchsorted(np.cumsum(variances), explained * variances.sum())) + 1
    basis = vectors[:, :kept]
    left = rows - rows @ basis @ basis.T
    return np.sqrt((left**2).mean(axis=1))


t = np.arange(160)
x = 1e3 + 3 * np.sin(t / 5) + np.sin(t * t / 7) + 0.02 * t + np.where((t >= 90) & (t < 97), 4.0, 0.0)
print(
    json.dumps(
        {
            "values": x.tolist(),
            "cases": [
                {"window": w, "explained": e, "scores": scores(x, w, e).tolist()}
                for w, e in [(12, 0.9), (7, 0.6), (70, 0.8)]
            ],
        }
    )
)
