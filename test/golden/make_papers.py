"""Recomputes timerpo.json, expcot.json and rewards/reward.json from the formulas of the papers, in NumPy and SciPy alone.

    pip install numpy scipy
    python test/golden/make_papers.py --check   # compares every number with the files
    python test/golden/make_papers.py           # rewrites the outputs; hidden states, series and intervals stay

No formula is taken from this project's code: transport is computed in the log domain, the Savitzky-Golay filter
is SciPy's, the matrix profile compares every pair of windows, and affiliation is integrated numerically.
Sources: AnomSeer (ExpCoT, TimerPO, reward); Huet et al. 2022, "Local evaluation of time series anomaly detection
algorithms" (affiliation).
"""

import json
import math
import pathlib
import platform
import sys

import numpy as np
import scipy
from scipy.signal import savgol_filter
from scipy.special import log_softmax, logsumexp

HERE = pathlib.Path(__file__).parent


def intervals_where(mask):
    """Half-open runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(mask, dtype=int), [0]])))
    return [[int(start), int(end)] for start, end in edges.reshape(-1, 2)]


def merged(intervals):
    """Union of half-open intervals; touching ones join."""
    union = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([start, end])
    return union


def transported(states, hint_states):
    """Transports a response to a trace (eps 0.08, 50 iterations, log domain): cost, plan and both log marginals."""
    states, hint = np.array(states), np.array(hint_states)
    norms, hint_norms = np.linalg.norm(states, axis=1), np.linalg.norm(hint, axis=1)
    # The program that made the first file adds 1e-6 to each norm before it divides; it moves W by 2e-7.
    cost = np.maximum(0, 1 - (states @ hint.T) / np.outer(norms + 1e-6, hint_norms + 1e-6))
    log_r, log_c = log_softmax(norms), log_softmax(hint_norms)
    f, g = np.zeros(len(norms)), np.zeros(len(hint_norms))
    for _ in range(50):
        f = log_r - logsumexp(g[None, :] - cost / 0.08, axis=1)
        g = log_c - logsumexp(f[:, None] - cost / 0.08, axis=0)
    return cost, np.exp(f[:, None] + g[None, :] - cost / 0.08), log_r, log_c


def similarity_to(states, hint_states):
    cost, plan, _, _ = transported(states, hint_states)
    return min(1.0, math.exp(-float((plan * cost).sum()) / 0.5))


def timerpo_group(group, all_groups):
    """Advantages of a group: the paper's, and three variants of ours (contrast, token credit, standardised)."""
    others = [other['hint_hidden'] for other in all_groups if other is not group]
    responses = []
    for response in group['responses']:
        states = response['response_hidden']
        cost, plan, log_r, log_c = transported(states, group['hint_hidden'])
        distance = float((plan * cost).sum())
        token_cost = (plan * cost).sum(axis=1) / plan.sum(axis=1)
        similarity = min(1.0, math.exp(-distance / 0.5))
        responses.append(
            {
                'response_hidden': states,
                'marginal_response': np.exp(log_r).tolist(),
                'marginal_hint': np.exp(log_c).tolist(),
                'W': distance,
                'similarity': similarity,
                'row_err': float(np.abs(plan.sum(axis=1) - np.exp(log_r)).max()),
                'col_err': float(np.abs(plan.sum(axis=0) - np.exp(log_c)).max()),
                'token_cost': token_cost.tolist(),
                'token_advantage_alpha_0_3': (0.3 * (token_cost.mean() - token_cost)).tolist(),
                'contrast': similarity - float(np.mean([similarity_to(states, hint) for hint in others])),
            }
        )
    rewards = np.array(group['rewards'])
    similarity = np.array([response['similarity'] for response in responses])
    main, grounding = rewards - rewards.mean(), similarity - similarity.mean()
    coefficient = float(grounding @ main / (main @ main + 1e-8))
    orthogonal = grounding - coefficient * main
    equal = rewards.max() == rewards.min()
    return {
        'hint_hidden': group['hint_hidden'],
        'responses': responses,
        'rewards': group['rewards'],
        'adv_main_mean_only': main.tolist(),
        'adv_ts': grounding.tolist(),
        'coeff': coefficient,
        'adv_ts_orth': orthogonal.tolist(),
        'adv_final_alpha_0_3': (main + 0.3 * orthogonal).tolist(),
        # Sample standard deviation + 1e-4, in a group of equal rewards alone.
        'adv_standardised': (grounding / (similarity.std(ddof=1) + 1e-4) if equal else orthogonal).tolist(),
    }


def dominant_period(values):
    """Period of the strongest bin of the spectrum, without the mean."""
    power = np.abs(np.fft.rfft(values - values.mean()))
    return len(values) / (1 + int(np.argmax(power[1:])))


def matrix_profile(values, window=50):
    """z-normalised distance of each window to its nearest other window, at least a quarter of a window away."""
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    scaled = (windows - windows.mean(axis=1, keepdims=True)) / windows.std(axis=1, keepdims=True)
    zone = math.ceil(window / 4)
    profile = np.empty(len(scaled))
    for i in range(len(scaled)):
        distances = np.sqrt(((scaled - scaled[i]) ** 2).sum(axis=1))
        distances[max(0, i - zone) : i + zone + 1] = np.inf
        profile[i] = distances.min()
    return profile


def expcot_case(case):
    """The four tests of a series; noisy series are smoothed first, as the name of their generator says."""
    raw = np.array(case['x'])
    values = savgol_filter(raw, 31, 2) if case['denoised'] else raw
    digits = lambda number: round(float(number), 8)
    mean, std = values.mean(), values.std()
    slope = np.gradient(savgol_filter(values, 21, 2))
    periods = np.array([dominant_period(values[i : i + 100]) for i in range(len(values) - 100)])
    profile = matrix_profile(values)
    discord = int(profile.argmax())
    discord_z = (profile[discord] - profile.mean()) / profile.std()
    frequency = {'period_mean': digits(periods.mean()), 'period_std': digits(periods.std()), 'intervals': []}
    if periods.std() < 1:
        frequency['note'] = 'stable'
    else:
        flagged = intervals_where(np.abs(periods - periods.mean()) > 3 * periods.std())
        frequency['intervals'] = merged([[start, end - 1 + 100] for start, end in flagged])
    return {
        **{key: case[key] for key in ('task', 'n', 'x', 'gt', 'denoised')},
        'max_abs_z': digits(np.abs(values - mean).max() / std),
        'full_period': digits(dominant_period(values)),
        'range': {
            'mean': digits(mean),
            'std': digits(std),
            'upper': digits(mean + 3 * std),
            'lower': digits(mean - 3 * std),
            'intervals': intervals_where(np.abs(values - mean) > 3 * std),
        },
        'trend': {
            'grad_mean': digits(slope.mean()),
            'grad_std': digits(slope.std()),
            'threshold': digits(3 * slope.std()),
            'intervals': intervals_where(np.abs(slope - slope.mean()) > 3 * slope.std()),
        },
        'matrix_profile': {
            'discord_idx': discord,
            'discord_value': digits(profile[discord]),
            'discord_z': digits(discord_z),
            'profile_mean': digits(profile.mean()),
            'profile_std': digits(profile.std()),
            'intervals': [[discord, discord + 50]] if discord_z > 3.5 else [],
        },
        'frequency': frequency,
    }


def distance_to(points, start, end):
    return np.maximum(0, np.maximum(start - points, points - end))


def affiliation(predicted, gold, length, per_sample=2000):
    """Affiliation precision and recall by numerical integration of the survival functions of random points."""
    points = (np.arange(length * per_sample) + 0.5) / per_sample
    inside = np.zeros(len(points), dtype=bool)
    for start, end in predicted:
        inside[start * per_sample : end * per_sample] = True
    borders = [0, *[(left[1] + right[0]) / 2 for left, right in zip(gold, gold[1:])], length]
    precisions, recalls = [], []
    for (start, end), low, high in zip(gold, borders, borders[1:]):
        zone = (points >= low) & (points < high)
        hits = points[zone & inside]
        if len(hits) == 0:
            recalls.append(0.0)
            continue
        # Probability that a random point of the zone is at least as far from the event as the predicted one.
        d = distance_to(hits, start, end)
        below, above = np.minimum(d, start - low), np.minimum(d, high - end)
        precisions.append(np.where(d == 0, 1, 1 - (end - start + below + above) / (high - low)).mean())
        # The same of the distance from a point of the event to the nearest prediction.
        event = points[(points >= start) & (points < end)]
        parts = [(max(a, low), min(b, high)) for a, b in predicted if min(b, high) > max(a, low)]
        d = np.min([distance_to(event, a, b) for a, b in parts], axis=0)
        below, above = np.minimum(d, event - low), np.minimum(d, high - event)
        recalls.append((1 - (below + above) / (high - low)).mean())
    return (float(np.mean(precisions)) if precisions else 0.0), float(np.mean(recalls))


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def reward_case(case):
    """0.7 localisation, the mean of six metrics of four decimals, + 0.2 class + 0.1 format."""
    n, gold = case['n'], case['gt']
    predicted = merged([[a, min(b, n)] for a, b in case['pred'] if min(b, n) > a])
    names = ['precision', 'recall', 'f1', 'affi_precision', 'affi_recall', 'affi_f1']
    if not predicted or not gold:
        six = [float(not predicted and not gold)] * 6
    else:
        truth, marked = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        for start, end in gold:
            truth[start:end] = True
        for start, end in predicted:
            marked[start:end] = True
        both = (truth & marked).sum()
        precision, recall = both / marked.sum(), both / truth.sum()
        near, covered = affiliation(predicted, gold, n)
        six = [precision, recall, f1(precision, recall), near, covered, f1(near, covered)]
    six = [round(float(number), 4) for number in six]
    mean = sum(six) / 6
    return {
        **{key: case[key] for key in ('name', 'pred', 'gt', 'n')},
        'metrics': dict(zip(names, six)),
        'localisation_mean6': round(mean, 10),
        'total_class1_fmt1': round(0.7 * mean + 0.3, 10),
        'total_class0_fmt1': round(0.7 * mean + 0.1, 10),
        'total_class0_fmt0': round(0.7 * mean, 10),
    }


FILES = [
    ('timerpo.json', 'groups', timerpo_group),
    ('expcot.json', 'cases', expcot_case),
    ('rewards/reward.json', 'cases', reward_case),
]


def compare(path, stored, made):
    """Largest difference of two numbers of the same place; anything else must be equal."""
    if isinstance(stored, dict):
        assert stored.keys() == made.keys(), (path, stored.keys(), made.keys())
        return max([0.0, *[compare(f'{path}.{key}', stored[key], made[key]) for key in stored]])
    if isinstance(stored, list):
        assert len(stored) == len(made), (path, stored, made)
        return max([0.0, *[compare(f'{path}[{i}]', *pair) for i, pair in enumerate(zip(stored, made))]])
    if isinstance(stored, (int, float)) and not isinstance(stored, bool):
        difference = abs(stored - made)
        # Distances of the matrix profile that are close to 0 are roots of rounding errors.
        allowed = 2e-6 if '.profile_' in path or 'discord_z' in path else 1.1e-8
        assert difference <= allowed, (path, stored, made)
        return difference
    assert stored == made, (path, stored, made)
    return 0.0


for name, key, make in FILES:
    golden = json.loads((HERE / name).read_text())
    made = [make(case, golden[key]) if make is timerpo_group else make(case) for case in golden[key]]
    if '--check' in sys.argv:
        print(f'{name}: {len(made)} {key} agree, largest difference {compare(key, golden[key], made):.1e}')
        continue
    versions = {'python': platform.python_version(), 'numpy': np.__version__, 'scipy': scipy.__version__}
    out = {**golden, 'source': 'make_papers.py', 'versions': versions, key: made}
    (HERE / name).write_text(json.dumps(out, separators=(',', ':')) + '\n')
