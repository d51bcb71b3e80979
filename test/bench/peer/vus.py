"""Peer of the VUS benchmark: TSB-AD on the scores of a file, on one core.

A question is {"file": float64 scores, "truth": [[start, end], …], "window": w, "version": "opt" | "opt_mem"}; the answer is one element
with seconds and the two volumes.
"""

import argparse
import json
import sys
import time
from importlib.metadata import version

parser = argparse.ArgumentParser()
parser.add_argument('--processes')
parser.parse_args()

import numpy as np
from TSB_AD.evaluation.basic_metrics import generate_curve

print(json.dumps({'versions': f'TSB-AD {version("TSB-AD")}, numpy {np.__version__}'}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    scores = np.fromfile(job['file'])
    labels = np.zeros(len(scores), dtype=int)
    for start, end in job['truth']:
        labels[start:end] = 1
    began = time.perf_counter()
    *_, roc, pr = generate_curve(labels, scores, job['window'], job['version'])
    print(json.dumps([{'seconds': time.perf_counter() - began, 'pr': float(pr), 'roc': float(roc)}]), flush=True)
