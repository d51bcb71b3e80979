"""Makes test/golden/eval/classification.json: what scikit-learn computes on classifications with unequal classes.

    python test/golden/make_classification.py > test/golden/eval/classification.json

scikit-learn 1.9.1, numpy 1.26.4; the versions found are written into the file. Answers that name no gold class are the label
"?". Some cases have several answers to a series, each then weighs 1 / their number. `nearest` are classes of the nearest
training series after each was standardised (population standard deviation), Euclidean distance.
"""

import json
import platform

import numpy as np
import sklearn
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support
from sklearn.neighbors import KNeighborsClassifier


def case(name, classes, weights, n, skill, samples, seed):
    random = np.random.default_rng(seed)
    gold = random.choice(classes, size=n, p=weights)
    said = [
        [
            str(g) if random.random() < skill else str(random.choice([*classes, '?'], p=[*(np.array(weights) * 0.8), 0.2]))
            for _ in range(samples)
        ]
        for g in gold
    ]
    labels = sorted(set(gold.tolist()))
    flat_gold = np.repeat(gold, samples)
    flat_said = np.array(said).reshape(-1)
    weight = np.full(n * samples, 1 / samples)
    precision, recall, f1, _ = precision_recall_fscore_support(
        flat_gold, flat_said, labels=labels, sample_weight=weight, zero_division=0
    )
    columns = [*labels, '?'] if '?' in flat_said else labels
    confusion = confusion_matrix(flat_gold, flat_said, labels=[*labels, '?'])[: len(labels), : len(columns)]
    return {
        'name': name,
        'gold': gold.tolist(),
        'said': said,
        'labels': labels,
        'accuracy': float(np.average(flat_gold == flat_said, weights=weight)),
        'balanced_accuracy': float(np.mean(recall)),
        'balanced_accuracy_score': float(balanced_accuracy_score(flat_gold, flat_said, sample_weight=weight)),
        'macro_f1': float(np.mean(f1)),
        'weighted_f1': float(
            f1_score(flat_gold, flat_said, labels=labels, average='weighted', sample_weight=weight, zero_division=0)
        ),
        'precision': precision.tolist(),
        'recall': recall.tolist(),
        'f1': f1.tolist(),
        'confusion': confusion.tolist(),
    }


def nearest(seed, channels, length, classes, train, test):
    random = np.random.default_rng(seed)

    def draw(n):
        label = random.integers(0, classes, n)
        phase = random.uniform(0, 0.8, (n, channels, 1))
        x = np.linspace(0, 6, length)
        values = np.sin((1 + 0.35 * label[:, None, None]) * x + phase) + random.normal(0, 1.6, (n, channels, length))
        values = values * random.uniform(0.5, 3, (n, channels, 1)) + random.normal(0, 5, (n, channels, 1))
        return np.round(values, 4), label

    def standard(values):
        mean = values.mean(axis=-1, keepdims=True)
        return ((values - mean) / values.std(axis=-1, keepdims=True)).reshape(len(values), -1)

    (train_x, train_y), (test_x, test_y) = draw(train), draw(test)
    found = KNeighborsClassifier(n_neighbors=1).fit(standard(train_x), train_y).predict(standard(test_x))
    return {
        'train': train_x.tolist(),
        'train_class': train_y.tolist(),
        'test': test_x.tolist(),
        'nearest': found.tolist(),
        'accuracy': float(np.mean(found == test_y)),
    }


print(
    json.dumps(
        {
            'source': 'test/golden/make_classification.py',
            'versions': {'python': platform.python_version(), 'scikit-learn': sklearn.__version__, 'numpy': np.__version__},
            'cases': [
                case('three unequal classes', ['a', 'b', 'c'], [0.6, 0.3, 0.1], 60, 0.6, 1, 1),
                case('two classes, answers at random', ['x', 'y'], [0.8, 0.2], 30, 0.0, 1, 5),
                case('seven classes, four answers each', list('pqrstuv'), [0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05], 50, 0.5, 4, 3),
            ],
            'nearest': nearest(4, 2, 24, 3, 30, 20),
        }
    )
)
