"""Makes test/golden/eval/measures.json: measures of intervals, scores, probabilities and paired answers by independent programs.

    pip install numpy==1.26.4 scikit-learn scipy prts && pip install --no-deps TSB-AD
    python test/golden/make_measures.py > test/golden/eval/measures.json

TSB-AD 1.5, prts 1.0.0.3, scikit-learn 1.9.1, SciPy 1.17.1; the versions found are written into the file. Measures of intervals get
labels as 0 and 1. `vus_labels` is TSB-AD's `metric_VUS_pred` with the labels of its `sequencing` made anew for each window: the function
itself overwrites its labels from window to window.
"""

import importlib.metadata
import json
import platform

import numpy as np
from prts import TimeSeriesFScore, ts_precision, ts_recall
from scipy.stats import binomtest, permutation_test
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from TSB_AD.evaluation.basic_metrics import basic_metricor, generate_curve

GRADER = basic_metricor()


def labels_of(intervals, length):
    labels = np.zeros(length, dtype=int)
    for start, end in intervals:
        labels[start:end] = 1
    return labels


def windows_apart(labels, preds, window):
    """Means of precision, recall and F over the windows 0 … window, each from the true labels."""
    sums = np.zeros(3)
    for w in range(window + 1):
        seq = GRADER.range_convers_new(labels)
        extended = GRADER.sequencing(labels, seq, w)
        inner = extended * preds
        for start, end in seq:
            inner[start : end + 1] = 1
        true_positives = float(np.dot(inner, preds))
        positives = (labels.sum() + inner.sum()) / 2
        recall = min(true_positives / positives, 1)
        precision = true_positives / preds.sum()
        f = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0
        sums += (recall, precision, f)
    return (sums / (window + 1)).tolist()


def intervals_case(name, length, gold, predicted, window):
    truth, said = labels_of(gold, length), labels_of(predicted, length)
    range_based = []
    for alpha in (0.0, 0.3):
        for cardinality in ('one', 'reciprocal'):
            for bias in ('flat', 'front', 'middle', 'back'):
                range_based.append(
                    {
                        'alpha': alpha,
                        'cardinality': cardinality,
                        'bias': bias,
                        'precision': float(ts_precision(truth, said, alpha=0.0, cardinality=cardinality, bias=bias)),
                        'recall': float(ts_recall(truth, said, alpha=alpha, cardinality=cardinality, bias=bias)),
                        'f1': float(
                            TimeSeriesFScore(
                                p_alpha=0.0, r_alpha=alpha, cardinality=cardinality, p_bias=bias, r_bias=bias
                            ).score(truth, said)
                        ),
                    }
                )
    return {
        'name': name,
        'length': length,
        'gold': gold,
        'predicted': predicted,
        'window': window,
        'range_based': range_based,
        'tsb_range_f1': float(GRADER.metric_RF1(truth, said, preds=said)),
        'tsb_event_f1': float(GRADER.metric_EventF1PA(truth, said, preds=said)),
        'tsb_pa_f1': float(GRADER.metric_PointF1PA(truth, said, preds=said)),
        'vus_labels': windows_apart(truth, said, window),
    }


def scores_case(name, length, gold, window, seed, digits):
    random = np.random.default_rng(seed)
    truth = labels_of(gold, length)
    score = np.round(np.clip(0.25 * truth + random.gamma(2, 0.12, length), 0, 4), digits)
    *_, roc, pr = generate_curve(truth, score, window)
    *_, roc_all, pr_all = generate_curve(truth, score, window, thre=length)
    return {
        'name': name,
        'gold': gold,
        'window': window,
        'scores': score.tolist(),
        'auc_pr': float(average_precision_score(truth, score)),
        'auc_roc': float(roc_auc_score(truth, score)),
        'vus_pr': float(pr),
        'vus_roc': float(roc),
        'vus_pr_all': float(pr_all),
        'vus_roc_all': float(roc_all),
    }


def calibration_case(seed, n):
    random = np.random.default_rng(seed)
    classes = ['a', 'b', 'c']
    probabilities = random.dirichlet([2, 1, 0.5], n)
    gold = [str(random.choice(classes, p=0.7 * p + 0.1)) for p in probabilities]
    return {
        'classes': classes,
        'probabilities': probabilities.tolist(),
        'gold': gold,
        'brier': float(brier_score_loss(gold, probabilities, labels=classes, scale_by_half=False)),
        'log_loss': float(log_loss(gold, probabilities, labels=classes)),
    }


def permutation_case(values):
    found = permutation_test(
        (np.array(values),), np.mean, permutation_type='samples', n_resamples=np.inf, alternative='two-sided'
    )
    return {'differences': values, 'p': float(found.pvalue)}


print(
    json.dumps(
        {
            'source': 'test/golden/make_measures.py',
            'versions': {
                'python': platform.python_version(),
                **{name: importlib.metadata.version(name) for name in ('TSB-AD', 'prts', 'scikit-learn', 'scipy', 'numpy')},
            },
            'intervals': [
                intervals_case('pieces of one anomaly', 120, [[20, 51], [80, 90]], [[15, 24], [30, 37], [45, 60], [99, 104]], 20),
                intervals_case('one prediction over two', 90, [[10, 17], [25, 40]], [[12, 33], [70, 71]], 31),
                intervals_case('near misses with buffers that meet', 100, [[30, 33], [36, 37], [41, 50]], [[33, 36], [52, 60]], 24),
                intervals_case('at both ends', 64, [[1, 6], [58, 64]], [[0, 2], [5, 9], [50, 61]], 16),
            ],
            'scores': [
                scores_case('one anomaly', 400, [[120, 150]], 40, 1, 12),
                scores_case('equal scores', 300, [[40, 44], [90, 120], [200, 201]], 25, 2, 1),
                scores_case('buffers that meet and pass through', 260, [[0, 5], [60, 62], [65, 66], [70, 90], [240, 260]], 30, 3, 12),
            ],
            'calibration': calibration_case(4, 60),
            'mcnemar': [
                {'lost': b, 'won': c, 'p': float(binomtest(min(b, c), b + c, 0.5).pvalue)}
                for b, c in ((1, 8), (8, 1), (5, 6), (12, 30), (3, 3), (0, 1), (400, 460))
            ],
            'permutation': [
                permutation_case([1.0, 2.0, -0.5, 3.0]),
                permutation_case([0.3, -0.1, 0.25, 0.4, -0.35, 0.15, 0.2, 0.05]),
                permutation_case([0.5, 0.5, -0.5, 0.5, 0.5, -0.25, 0.75, 0.5, 0.1, -0.2]),
            ],
        }
    )
)
