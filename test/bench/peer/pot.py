"""Transport of responses to the traces of their prompts by POT: float64, a fixed number of iterations, no early end.

    python pot.py --solver sinkhorn|batch --file FILE --prompts P --group G --rows T --columns S --width D --epsilon E --iterations N
                  [--processes N]

FILE holds states of responses [P·G, T, D], then of traces [P, S, D], as float32. `sinkhorn` is `ot.sinkhorn`, a problem at a time; it scales
columns first, so it gets each problem transposed and its iterates are those of scaling rows first. `batch` is `ot.batch.solve_batch`,
all at once. N processes share the prompts. Questions: `transport`, norms, masses, cosines, plans; `sinkhorn`, the same from costs and
masses that are ready. Answers: ⟨plan, cost⟩ of every response.
"""

import argparse

import numpy as np
import ot
from ot.batch import solve_batch

from serve import serve


def prepared(states):
    """Unit vectors [N, T, D] and masses softmax(norm) [N, T]."""
    wide = states.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1)
    mass = np.exp(norms - norms.max(-1, keepdims=True))
    return wide / (norms[..., None] + 1e-6), mass / mass.sum(-1, keepdims=True)


def start(rank, size, options):
    p, g, t, s, d = options.prompts, options.group, options.rows, options.columns, options.width
    values = np.fromfile(options.file, dtype=np.float32)
    first, last = rank * p // size, (rank + 1) * p // size
    responses = values[:p * g * t * d].reshape(p, g, t, d)[first:last].reshape(-1, t, d)
    traces = values[p * g * t * d:].reshape(p, s, d)[first:last]

    def problems():
        (x, r), (y, c) = prepared(responses), prepared(traces)
        return np.clip(1 - x @ np.repeat(y, g, 0).transpose(0, 2, 1), 0, 2), r, np.repeat(c, g, 0)

    def one_by_one(cost, r, c):
        found = []
        for i in range(len(cost)):
            plan = ot.sinkhorn(c[i], r[i], cost[i].T, options.epsilon, numItermax=options.iterations, stopThr=0, warn=False)
            found.append(float((plan * cost[i].T).sum()))
        return found

    def batched(cost, r, c):
        found = solve_batch(
            cost, options.epsilon, r, c, max_iter=options.iterations, tol=0, method="sinkhorn", grad="detach"
        )
        return found.value_linear.tolist()

    solver = {"sinkhorn": one_by_one, "batch": batched}[options.solver]
    ready = problems()
    return lambda question: solver(*(problems() if question == "transport" else ready))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--solver", choices=["sinkhorn", "batch"], required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    for name in ("--prompts", "--group", "--rows", "--columns", "--width", "--iterations"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    serve(start, options.processes, options, f"POT {ot.__version__}, numpy {np.__version__}")
