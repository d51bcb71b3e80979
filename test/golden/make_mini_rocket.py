"""Golden values of MiniRocket by aeon and of ridge by scikit-learn: python3 make_mini_rocket.py > mini_rocket.json

aeon's fit is run with its random draws recorded (its functions without compilation), so that biases can be compared too.
"""

import json

import aeon
import numpy as np
import sklearn
from aeon.transformations.collection.convolution_based import _minirocket as module
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import StandardScaler

random = np.random.default_rng(7)


def fitted(x, features):
    """Parameters of aeon's fit, and the series that was drawn for each kernel at each dilation."""
    draws = []

    class Recorded:
        def __getattr__(self, name):
            return getattr(np.random, name)

        def randint(self, count):
            draws.append(int(np.random.randint(count)))
            return draws[-1]

    class Numpy:
        random = Recorded()

        def __getattr__(self, name):
            return getattr(np, name)

    compiled = module._fit_biases
    module._fit_biases = compiled.py_func
    module._fit_biases.__globals__['np'] = Numpy()
    try:
        parameters = module._static_fit(x.astype(np.float32), features, 32, 11)
    finally:
        module._fit_biases = compiled
        compiled.py_func.__globals__['np'] = np
    return parameters, draws


def every(values, step):
    return [float(v) for v in values[::step]]


def case(cases, channels, length, features, step):
    x = np.round(random.normal(size=(cases, channels, length)).cumsum(axis=2), 2)
    (counts, indices, dilations, per_kernel, biases), draws = fitted(x, features)
    transform = module._static_transform_uni if channels == 1 else module._static_transform_multi
    rows = transform(
        x.astype(np.float32)[:, 0] if channels == 1 else x.astype(np.float32),
        (counts, indices, dilations, per_kernel, biases),
        module.MiniRocket._indices,
    )
    return {
        'series': x.tolist(),
        'features': features,
        'dilations': dilations.tolist(),
        'biasesPerKernel': per_kernel.tolist(),
        'seen': [part.tolist() for part in np.split(indices, np.cumsum(counts)[:-1])],
        'draws': draws,
        'step': step,
        'biases': every(biases, step),
        'rows': [every(row, step) for row in rows],
    }


def ridge(classes, rows, width):
    x = np.round(random.normal(size=(rows, width)), 2).astype(np.float32)
    y = np.array([chr(97 + i % classes) for i in range(rows)])
    x[:, :3] += np.array([[ord(label) - 97] for label in y])
    x[:, 4] = 0.5
    scaled = StandardScaler(with_mean=False).fit(x)
    model = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10), store_cv_results=True).fit(scaled.transform(x), y)
    fresh = np.round(random.normal(size=(6, width)), 2).astype(np.float32)
    values = model.decision_function(scaled.transform(fresh))
    results = model.cv_results_.reshape(rows, -1, 10)
    return {
        'rows': x.tolist(),
        'labels': y.tolist(),
        'penalty': float(model.alpha_),
        'errors': results.mean(axis=(0, 1)).tolist(),
        'fresh': fresh.tolist(),
        'values': values.reshape(6, -1).tolist(),
        'predicted': model.predict(scaled.transform(fresh)).tolist(),
    }


kernels = module.MiniRocket._indices.tolist()
dilations = [
    {'length': n, 'features': f, 'dilations': d.tolist(), 'biasesPerKernel': c.tolist()}
    for n, f in [(9, 84), (128, 10_000), (319, 10_000), (720, 10_000), (1500, 10_000), (1000, 500), (4000, 10_000)]
    for d, c in [module._fit_dilations(n, f, 32)]
]
versions = {'aeon': aeon.__version__, 'scikit-learn': sklearn.__version__, 'numpy': np.__version__}
print(
    json.dumps(
        {
            'versions': versions,
            'kernels': kernels,
            'dilations': dilations,
            'transforms': [case(4, 1, 61, 500, 7), case(3, 4, 30, 168, 3)],
            'ridges': [ridge(2, 14, 20), ridge(3, 12, 9)],
        }
    )
)
