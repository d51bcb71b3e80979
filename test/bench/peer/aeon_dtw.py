"""Peer of the time-warping benchmark: 1-NN classification by aeon on the same cores.

A question is {"train": file, "test": file, "n", "m", "length", "threads", "window"}: float64 rows; the places of the nearest go to the answer
with seconds of wall clock and of processor time. What numba compiles is compiled by a tiny problem before the first answer.
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument('--processes')
parser.parse_args()

import aeon
import numba
import numpy as np
from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier


def nearest(train, test, window, threads):
    # The labels are the places, so that the class is the place of the nearest.
    params = {} if window is None else {'window': window}
    model = KNeighborsTimeSeriesClassifier(n_neighbors=1, distance='dtw', distance_params=params, n_jobs=threads)
    return model.fit(train[:, None], np.arange(len(train))).predict(test[:, None])


print(json.dumps({'versions': f'aeon {aeon.__version__}, numba {numba.__version__}, numpy {np.__version__}'}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    train, test = [
        np.fromfile(job[part]).reshape(job[count], job['length']) for part, count in [('train', 'n'), ('test', 'm')]
    ]
    nearest(train[:4, :16].copy(), test[:4, :16].copy(), job['window'], job['threads'])
    wall, cpu = time.perf_counter(), time.process_time()
    found = nearest(train, test, job['window'], job['threads'])
    answer = {'wall': time.perf_counter() - wall, 'cpu': time.process_time() - cpu, 'nearest': found.tolist()}
    print(json.dumps([answer]), flush=True)
