"""Peers of the analysis benchmark: statsmodels, SciPy, pyMannKendall, ruptures, stumpy and scikit-learn on the series of a file.

A question is {"file": float64 values, "length": samples per series, "analysis": name}; the answer is one element with milliseconds of
wall clock and of processor time per series, or null where there is no such peer or its library is missing.
"""

import argparse
import importlib
import json
import sys
import time
import warnings

parser = argparse.ArgumentParser()
parser.add_argument('--processes')
parser.parse_args()

import numpy as np

warnings.simplefilter('ignore')
PERIOD = 25


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


stats, tsa = module('scipy.stats'), module('statsmodels.tsa.api')
stattools, signal = module('statsmodels.tsa.stattools'), module('scipy.signal')
seasonal, mk = module('statsmodels.tsa.seasonal'), module('pymannkendall')
ruptures, stumpy, ensemble = module('ruptures'), module('stumpy'), module('sklearn.ensemble')


def change_penalty(x):
    steps = np.diff(x)
    sigma = 1.482602218505602 * np.median(np.abs(steps - np.median(steps))) / np.sqrt(2)
    return 2 * sigma**2 * np.log(len(x))


def forest(x):
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(x, 8))
    return ensemble.IsolationForest(n_estimators=100, max_samples=256, random_state=0).fit(windows).score_samples(windows)


PEERS = {
    'unit root (ADF)': (stattools, lambda x: stattools.adfuller(x)),
    'stationarity (KPSS)': (stattools, lambda x: stattools.kpss(x, nlags='auto')),
    'Mann–Kendall': (mk, lambda x: mk.original_test(x)),
    'Theil–Sen': (stats, lambda x: stats.theilslopes(x)),
    'autocorrelation, bands': (stattools, lambda x: stattools.acf(x, nlags=100, alpha=0.05)),
    'classical decomposition': (seasonal, lambda x: seasonal.seasonal_decompose(x, period=PERIOD)),
    'STL': (tsa, lambda x: tsa.STL(x, period=PERIOD).fit()),
    'STL, robust': (tsa, lambda x: tsa.STL(x, period=PERIOD, robust=True).fit()),
    'change points (PELT)': (
        ruptures,
        lambda x: ruptures.KernelCPD(kernel='linear', min_size=2).fit(x).predict(pen=change_penalty(x)),
    ),
    'periodogram, Welch': (signal, lambda x: (signal.periodogram(x), signal.welch(x))),
    'spectrogram': (signal, lambda x: signal.spectrogram(x, nperseg=128, noverlap=64)),
    'matrix profile': (stumpy, lambda x: stumpy.stump(x, 50)),
    'Savitzky–Golay': (signal, lambda x: signal.savgol_filter(x, 21, 2)),
    'isolation forest, windows of 8': (ensemble, forest),
}

if stumpy is not None:
    importlib.import_module('numba').set_num_threads(1)
named = [name for name in ('statsmodels', 'scipy', 'pymannkendall', 'ruptures', 'stumpy', 'sklearn') if module(name)]
versions = ', '.join(f'{name} {str(module(name).__version__).lstrip("v")}' for name in named)
print(json.dumps({'versions': versions or 'no library of a peer'}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    library, analysis = PEERS.get(job['analysis'], (None, None))
    if library is None:
        print(json.dumps([None]), flush=True)
        continue
    series = np.fromfile(job['file']).reshape(-1, job['length'])
    wall, cpu = time.perf_counter(), time.process_time()
    for x in series:
        analysis(x)
    spent = {'wall': time.perf_counter() - wall, 'cpu': time.process_time() - cpu}
    print(json.dumps([{key: 1000 * seconds / len(series) for key, seconds in spent.items()}]), flush=True)
