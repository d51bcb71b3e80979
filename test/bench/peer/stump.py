"""Peer of the matrix-profile benchmark: stumpy on the series of a file, with all cores.

A question is {"file": float64 values, "m": window, "threads": n}; the profile goes to FILE.profile, the answer is one
element with seconds of wall clock and of processor time. The first answer of a process pays for the compilation.
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument('--processes')
parser.parse_args()

import numba
import numpy as np
import stumpy

print(json.dumps({'versions': f'stumpy {stumpy.__version__}, numba {numba.__version__}, numpy {np.__version__}'}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    numba.set_num_threads(min(job['threads'], numba.config.NUMBA_NUM_THREADS))
    values = np.fromfile(job['file'])
    wall, cpu = time.perf_counter(), time.process_time()
    profile = stumpy.stump(values, job['m'])
    answer = {'wall': time.perf_counter() - wall, 'cpu': time.process_time() - cpu}
    profile[:, 0].astype(np.float64).tofile(job['file'] + '.profile')
    print(json.dumps([answer]), flush=True)
