"""Makes test/golden/series.json: what independent programs compute on asymmetric series.

    python test/golden/make_analysis.py > test/golden/series.json

numpy 2.4.6, scipy 1.17.1, statsmodels 0.15.0, pymannkendall 1.4.3, ruptures 1.1.10, stumpy 1.14.1, scikit-learn 1.9.1,
pandas 3.1.1; the versions found are written into the file. Inputs are rounded to 6 decimals before use; null stands for NaN.
What no library has (spectral residual, the tabular CUSUM, the choice of motifs and discords) is written out below
from its definition, in another form than the code under test.
"""

import json
import platform
import sys
import warnings

import numpy as np
import pandas as pd
import pymannkendall
import ruptures
import scipy
import sklearn
import statsmodels
import stumpy
from scipy import signal, stats
from sklearn.ensemble import IsolationForest
from statsmodels.stats.diagnostic import breaks_cusumolsresid
from statsmodels.tsa.seasonal import STL, seasonal_decompose
from statsmodels.tsa.stattools import acf, adfuller, kpss

warnings.simplefilter('ignore')
rng = np.random.default_rng(20260118)


def ar(n, phi, scale=1.0):
    x = np.zeros(n)
    for t in range(1, n):
        x[t] = phi * x[t - 1] + rng.normal() * scale
    return x


t = np.arange(400)
S = {
    'ar_100': 3 + ar(100, 0.6),
    'walk_173': np.cumsum(rng.normal(size=173)) + 0.05 * np.arange(173),
    'trend_ar_61': 0.04 * np.arange(61) + ar(61, -0.3, 0.5),
    'short_9': np.array([1.5, 0.2, 2.25, -1.0, 0.75, 3.5, 0.1, -2.2, 1.9]),
    'offset_80': 1e6 + ar(80, 0.4),
    'rounded_90': np.round(0.02 * np.arange(90) + rng.normal(size=90), 0),
    'season_97': 5 + 0.02 * np.arange(97) + np.sin(2 * np.pi * np.arange(97) / 7) * (1 + 0.01 * np.arange(97))
    + 0.2 * rng.normal(size=97),
    'season_150': np.exp(0.004 * np.arange(150)) * (2 + np.sin(2 * np.pi * np.arange(150) / 12 + 0.7)
    + 0.4 * np.cos(4 * np.pi * np.arange(150) / 12)) * (1 + 0.03 * rng.normal(size=150)),
    'levels_160': np.concatenate([rng.normal(0, 0.5, 41), rng.normal(2.2, 0.5, 23), rng.normal(1.1, 0.5, 60),
                                  rng.normal(-1.3, 0.5, 36)]),
    'shift_75': np.concatenate([rng.normal(0, 1, 47), rng.normal(1.4, 1, 28)]),
    'spikes_120': np.sin(np.arange(120) / 6) + 0.1 * rng.normal(size=120),
}
S['spikes_120'][[17, 18, 64, 119]] += [2.5, -3.0, 4.0, -2.0]
S['season_97'][50] += 6
S = {k: np.round(v, 6) for k, v in S.items()}


def clean(v):
    if isinstance(v, dict):
        return {k: clean(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [clean(x) for x in v]
    if isinstance(v, np.ndarray):
        return clean(v.tolist())
    if isinstance(v, (np.bool_, bool)):
        return bool(v)
    if isinstance(v, (np.integer, int)):
        return int(v)
    if isinstance(v, (np.floating, float)):
        v = float(v)
        return float(f'{v:.13g}') if np.isfinite(v) else None
    return v


out = {
    'source': 'test/golden/make_analysis.py',
    'versions': {'python': platform.python_version(), 'numpy': np.__version__, 'scipy': scipy.__version__,
                 'statsmodels': statsmodels.__version__, 'pymannkendall': pymannkendall.__version__,
                 'ruptures': '1.1.10', 'stumpy': stumpy.__version__, 'sklearn': sklearn.__version__,
                 'pandas': pd.__version__},
    'seed': 20260118,
    'series': S,
}

# ---- stationarity -----------------------------------------------------------------------------------------------
out['adf'] = []
for name in ['ar_100', 'walk_173', 'trend_ar_61', 'short_9', 'offset_80', 'rounded_90', 'season_97', 'levels_160']:
    for regression in ['n', 'c', 'ct']:
        if name == 'offset_80' and regression == 'n':
            continue
        for kwargs in ({}, {'maxlag': 2, 'autolag': None}):
            if name == 'short_9' and kwargs:
                continue
            stat, p, lags, nobs, crit, *_ = adfuller(S[name], regression=regression, **kwargs)
            out['adf'].append({'series': name, 'regression': regression, 'maxLag': kwargs.get('maxlag'), 'stat': stat,
                               'p': p, 'lags': lags, 'nobs': nobs, 'critical': [crit['1%'], crit['5%'], crit['10%']]})
out['kpss'] = []
for name in ['ar_100', 'walk_173', 'trend_ar_61', 'short_9', 'offset_80', 'rounded_90', 'season_97', 'levels_160']:
    for regression in ['c', 'ct']:
        for nlags in ['auto', 3]:
            stat, p, lags, crit = kpss(S[name], regression=regression, nlags=nlags)
            out['kpss'].append({'series': name, 'regression': regression, 'given': None if nlags == 'auto' else nlags,
                                'stat': stat, 'p': p, 'lags': lags})

# ---- trend ------------------------------------------------------------------------------------------------------
out['trend'] = []
for name in S:
    mk = pymannkendall.original_test(S[name])
    ts = stats.theilslopes(S[name])
    narrow = stats.theilslopes(S[name], alpha=0.6)
    out['trend'].append({'series': name, 's': mk.s, 'variance': mk.var_s, 'z': mk.z, 'p': mk.p, 'tau': mk.Tau,
                         'tauB': stats.kendalltau(np.arange(len(S[name])), S[name]).statistic,
                         'slope': ts.slope, 'intercept': ts.intercept, 'low': ts.low_slope, 'high': ts.high_slope,
                         'low60': narrow.low_slope, 'high60': narrow.high_slope})

# ---- season -----------------------------------------------------------------------------------------------------
out['acf'] = []
for name, lags, adjusted in [('ar_100', 20, True), ('walk_173', 25, False), ('short_9', 8, True), ('season_97', 30, False)]:
    values, band = acf(S[name], nlags=lags, adjusted=adjusted, fft=False, alpha=0.05)
    out['acf'].append({'series': name, 'lags': lags, 'adjusted': adjusted, 'out': values, 'band': band[:, 1] - values})
out['decompose'] = []
for name, period, model in [('season_97', 7, 'additive'), ('season_97', 7, 'multiplicative'),
                            ('season_150', 12, 'multiplicative'), ('ar_100', 2, 'additive')]:
    d = seasonal_decompose(S[name], model=model, period=period)
    out['decompose'].append({'series': name, 'period': period, 'model': model, 'trend': d.trend, 'seasonal': d.seasonal,
                             'residual': d.resid})
out['stl'] = []
for name, options, robust in [
    ('season_97', {'period': 7}, True),
    ('season_97', {'period': 7, 'seasonal': 13, 'trend': 31, 'low_pass': 9, 'seasonal_deg': 0, 'trend_deg': 0,
                   'low_pass_deg': 0}, False),
    ('season_150', {'period': 12, 'seasonal': 35, 'seasonal_jump': 3, 'trend_jump': 4, 'low_pass_jump': 5}, False),
    ('season_150', {'period': 12}, True),
    ('short_9', {'period': 4}, False),
]:
    d = STL(S[name], robust=robust, **options).fit()
    out['stl'].append({'series': name, 'options': options, 'robust': robust, 'trend': d.trend, 'seasonal': d.seasonal,
                       'weights': d.weights if robust else None})

# ---- frequency --------------------------------------------------------------------------------------------------
out['psd'] = []
for name, fs, options in [
    ('ar_100', 1.0, {'nperseg': 32}),
    ('ar_100', 250.0, {'nperseg': 33, 'noverlap': 20, 'window': 'hamming', 'detrend': 'linear'}),
    ('walk_173', 2.5, {'nperseg': 64, 'noverlap': 0, 'window': 'boxcar', 'detrend': False, 'scaling': 'spectrum'}),
    ('short_9', 1.0, {'nperseg': 9}),
]:
    f, p = signal.welch(S[name], fs=fs, **options)
    out['psd'].append({'series': name, 'fs': fs, 'options': options, 'f': f, 'p': p})


def spectral_residual(x, extend):
    """Ren et al. 2019, section 4.1: log amplitude minus its circular mean over 3 bins; score against 21 points before."""
    n = len(x)
    y = x
    if extend:
        m = 5
        known = x[:-1]
        slopes = [(known[-1] - known[-1 - i]) / i for i in range(1, m + 1)]
        y = np.concatenate([x, [known[-m] + np.mean(slopes) * m] * 5])
    X = np.fft.fft(y)
    A = np.abs(X)
    tiny = A <= 1e-8 * A.max()
    L = np.log(np.where(tiny, 1.0, A))
    L[tiny] = np.log(1e-8 * A.max())
    mean = (np.roll(L, 1) + L + np.roll(L, -1)) / 3
    R = np.where(tiny, 0, np.exp(L - mean))
    sal = np.abs(np.fft.ifft(R * np.exp(1j * np.angle(X))))[:n]
    score = np.zeros(n)
    for i in range(n):
        before = sal[max(0, i - 21):i]
        score[i] = (sal[i] - before.mean()) / before.mean() if len(before) else 0
    return sal, score


out['spectral_residual'] = []
for name in ['spikes_120', 'season_97', 'short_9']:
    for extend in (False, True):
        sal, score = spectral_residual(S[name], extend)
        out['spectral_residual'].append({'series': name, 'extend': extend, 'saliency': sal, 'score': score})

# ---- change points ----------------------------------------------------------------------------------------------
out['pelt'] = []
for name in ['levels_160', 'shift_75', 'walk_173', 'short_9', 'rounded_90']:
    for least, penalty in [(1, 1.5), (2, 4.0), (5, 2.5), (2, 40.0)]:
        if (name, least) in [('short_9', 5), ('walk_173', 1)]:
            continue
        x = S[name]
        cost = ruptures.costs.CostL2()
        cost.fit(x)
        # The best over all numbers of changes by dynamic programming: exact for every least length.
        algo = ruptures.Dynp(model='l2', min_size=least, jump=1).fit(x)
        best = None
        for k in range(0, min(len(x) // least - 1, 26) + 1):
            bkps = algo.predict(k) if k else [len(x)]
            total = cost.sum_of_costs(bkps) + penalty * k
            if best is None or total < best[0] - 1e-12:
                best = (total, bkps)
            if k > len(best[1]) + 4:
                break
        pelt = ruptures.Pelt(model='l2', min_size=least, jump=1).fit(x).predict(penalty)
        out['pelt'].append({'series': name, 'minSize': least, 'penalty': penalty, 'total': best[0],
                            'changes': best[1][:-1], 'ruptures_pelt': pelt[:-1]})
out['cusum'] = []
for name in ['shift_75', 'ar_100', 'rounded_90', 'short_9']:
    x = S[name]
    stat, p, _ = breaks_cusumolsresid(x - x.mean())
    out['cusum'].append({'series': name, 'stat': stat, 'p': p, 'peak': int(np.abs((x - x.mean()).cumsum()[:-1]).argmax()) + 1})


def excursions(x, target, sigma, drift, threshold):
    """Page's tabular CUSUM as the distance of a cumulative sum from its running minimum."""
    found = []
    for sign, label in ((1, 'up'), (-1, 'down')):
        path = np.concatenate([[0], np.cumsum(sign * (x - target) / sigma - drift)])
        level = (path - np.minimum.accumulate(path))[1:]
        zero = np.concatenate([[-1], np.flatnonzero(level == 0), [len(x)]])
        for before, after in zip(zero[:-1], zero[1:]):
            part = level[before + 1:after]
            if len(part) and part.max() > threshold:
                found.append([label, before + 1, before + 1 + int(np.argmax(part > threshold)),
                              before + 2 + int(np.argmax(part))])
    return sorted(found, key=lambda e: e[1])


out['cusum_chart'] = [
    {'series': name, 'target': target, 'sigma': sigma, 'drift': drift, 'threshold': threshold,
     'shifts': excursions(S[name], target, sigma, drift, threshold)}
    for name, target, sigma, drift, threshold in [
        ('shift_75', 0.0, 1.0, 0.5, 5.0), ('levels_160', 0.4, 0.5, 0.5, 4.0), ('walk_173', 1.0, 3.0, 0.25, 3.0)]
]

# ---- outliers ---------------------------------------------------------------------------------------------------


def hampel(x, half, sigmas):
    s = pd.Series(x)
    roll = s.rolling(2 * half + 1, center=True, min_periods=1)
    med = roll.median()
    mad = roll.apply(lambda w: np.median(np.abs(w - np.median(w))), raw=True)
    hit = (s - med).abs() > sigmas * 1.482602218505602 * mad
    return np.where(hit, med, s), np.flatnonzero(hit.to_numpy())


out['hampel'] = []
for name, half, sigmas in [('spikes_120', 5, 3), ('spikes_120', 2, 2), ('short_9', 3, 1), ('rounded_90', 4, 3), ('season_97', 60, 3)]:
    y, hit = hampel(S[name], half, sigmas)
    out['hampel'].append({'series': name, 'half': half, 'sigmas': sigmas, 'out': y, 'outliers': hit})
out['robust'] = []
for name in ['spikes_120', 'rounded_90', 'short_9']:
    x = S[name]
    out['robust'].append({'series': name, 'iqr': stats.iqr(x), 'scaledMad': stats.median_abs_deviation(x, scale='normal'),
                          'trimmed10': stats.trim_mean(x, 0.1), 'trimmed25': stats.trim_mean(x, 0.25),
                          'winsorized10': float(np.mean(stats.mstats.winsorize(x, (0.1, 0.1))))})
rows = np.round(np.concatenate([rng.normal(size=(120, 2)) * [1, 0.3], [[4, 0.1], [0.2, 2.4], [-3.5, -2]]]), 4)
forest = np.mean([-IsolationForest(n_estimators=1000, max_samples=64, random_state=s).fit(rows).score_samples(rows)
                  for s in range(3)], axis=0)
out['isolation_forest'] = {'rows': rows, 'sample': 64, 'trees': 3000, 'scores': forest}

# ---- shape ------------------------------------------------------------------------------------------------------
out['shapes'] = []
for name, m in [('season_97', 10), ('spikes_120', 16), ('walk_173', 21)]:
    x = S[name]
    profile = stumpy.stump(x, m)
    d = profile[:, 0].astype(float)
    zone = int(np.ceil(m / 4))
    free = np.ones(len(d), bool)
    discords = []
    while len(discords) < 3 and free.any():
        i = int(np.argmax(np.where(free, d, -np.inf)))
        discords.append([i, d[i]])
        free[max(0, i - m + 1):i + m] = False
    free = np.ones(len(d), bool)
    motifs = []
    while len(motifs) < 2:
        usable = np.array([free[i] and free[int(profile[i, 1])] for i in range(len(d))])
        if not usable.any():
            break
        i = int(np.argmin(np.where(usable, d, np.inf)))
        j = int(profile[i, 1])
        dist = stumpy.mass(x[i:i + m], x)
        members, taken = [i, j], [i, j]
        for k in np.argsort(dist, kind='stable'):
            if dist[k] > 2 * d[i]:
                break
            if free[k] and all(abs(k - q) > zone for q in taken):
                taken.append(int(k))
                members.append(int(k))
        motifs.append({'pair': sorted([i, j]), 'distance': d[i], 'members': sorted(members)})
        for k in members:
            free[max(0, k - m + 1):k + m] = False
    out['shapes'].append({'series': name, 'm': m, 'profile': d, 'discords': discords, 'motifs': motifs})

json.dump(clean(out), sys.stdout, separators=(',', ':'))
