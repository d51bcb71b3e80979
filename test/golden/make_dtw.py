"""Golden distances of dynamic time warping by aeon, tslearn and dtaidistance, and LB_Keogh by tslearn: python3 make_dtw.py > dtw.json

aeon and ours sum squares; tslearn and dtaidistance take the root, which is undone here. Where two programs give a distance they must agree.
"""

import json

import aeon
import dtaidistance.dtw
import numpy as np
import tslearn
from aeon.distances import dtw_distance
from tslearn.metrics import dtw, lb_envelope, lb_keogh

random = np.random.default_rng(20)
cases = []
for channels, n, m in [(1, 40, 40), (1, 31, 47), (2, 25, 25), (3, 30, 22)]:
    x = np.round(random.normal(size=(channels, n)).cumsum(axis=1), 3)
    y = np.round(random.normal(size=(channels, m)).cumsum(axis=1), 3)
    distances = {'full': float(dtw_distance(x, y))}
    assert abs(dtw(x.T, y.T) ** 2 - distances['full']) < 1e-9 * distances['full']
    if n == m:
        for window in [0, 1, 3, 8]:
            distances[str(window)] = float(dtw(x.T, y.T, global_constraint='sakoe_chiba', sakoe_chiba_radius=window)) ** 2
            if channels == 1:
                other = dtaidistance.dtw.distance(x[0], y[0], window=window + 1) ** 2
                assert abs(other - distances[str(window)]) < 1e-9 * max(1, other)
    bounds = {}
    if channels == 1 and n == m:
        for window in [0, 2, 5, 40]:
            bounds[str(window)] = {
                'envelope': [side[:, 0].tolist() for side in lb_envelope(y[0], radius=window)],
                'keogh': float(lb_keogh(x[0], y[0], radius=window)) ** 2,
            }
    cases.append({'a': x.tolist(), 'b': y.tolist(), 'distances': distances, 'bounds': bounds})

versions = {'aeon': aeon.__version__, 'tslearn': tslearn.__version__, 'dtaidistance': dtaidistance.__version__}
print(json.dumps({'versions': versions, 'cases': cases}))
