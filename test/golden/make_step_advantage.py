"""Makes test/golden/step_advantage.json: step-level advantages in exact arithmetic, from the formulas of the papers.

    python test/golden/make_step_advantage.py > test/golden/step_advantage.json        (standard library alone)

Independent of this project's code and of the releases: rewards, discounts and means are fractions, so that equal values are equal; only
deviations and powers are rounded, to float64. Similarity is difflib's own. Distances are relaxed until nothing changes (Bellman-Ford).
The departures are those that src/train/step-advantage.ts lists: a value alone gets 0, success is a node of its own, similar states are
equal everywhere, statistics are per role. A step is [state, next, reward, isValid, bonus, role].
"""

import json
import math
import random
import sys
from difflib import SequenceMatcher
from fractions import Fraction

EPSILON = 1e-6


def exact(number):
    return Fraction(str(number))


def normalised(values, mode, freedom=1):
    """The values less their mean, as fractions; over the deviation as floats."""
    mean = sum(values, Fraction(0)) / len(values)
    rest = [value - mean for value in values]
    if mode == "mean":
        return [float(value) for value in rest]
    variance = sum((value * value for value in rest), Fraction(0)) / max(1, len(values) - freedom)
    return [float(value) / (math.sqrt(variance) + EPSILON) for value in rest]


def grouped(steps, key, value, mode, freedom=1):
    """Maps each step to its normalised value among the steps with its key."""
    result = {}
    for wanted in {key(step) for step in steps}:
        members = [step for step in steps if key(step) == wanted]
        for step, a in zip(members, normalised([value(step) for step in members], mode, freedom)):
            result[step["id"]] = a
    return result


class States:
    def __init__(self, similarity):
        self.similarity, self.known = similarity, []

    def of(self, text):
        for known in self.known:
            if text == known if self.similarity == 1 else SequenceMatcher(None, text, known).ratio() >= self.similarity:
                return known
        self.known.append(text)
        return text


def distances(episodes, states):
    """Shortest distance of each state to success; far ones one more than the farthest."""
    edges, nodes = [], set()
    for episode in episodes:
        for t, step in enumerate(episode["steps"]):
            last = t + 1 == len(episode["steps"])
            source = states.of(step["state"])
            target = None if episode["success"] and last else states.of(step["next"])
            edges.append((source, target))
            nodes |= {source, target} - {None}
    distance = {None: 0}
    for _ in range(len(nodes) + 1):
        for source, target in edges:
            if target in distance and distance[target] + 1 < distance.get(source, math.inf):
                distance[source] = distance[target] + 1
    far = max(distance.values()) + 1
    return {node: distance.get(node, far) for node in nodes | {None}}


def flat(group, options):
    steps = []
    for e, episode in enumerate(group):
        value = Fraction(0)
        rows = []
        for t in reversed(range(len(episode["steps"]))):
            step = episode["steps"][t]
            value = exact(step["reward"]) + exact(options["gamma"]) * value
            penalty = 0 if step["isValid"] else exact(options["invalidPenalty"])
            facts = {"penalty": penalty, "bonus": exact(step["bonus"]), "role": step.get("role")}
            rows.append({**step, **facts, "id": (e, t), "return": value - penalty})
        steps += reversed(rows)
        total = sum((exact(step["reward"]) for step in episode["steps"]), Fraction(0))
        for row in rows:
            row["total"] = total
            row["all"] = total + sum((r["bonus"] / len(rows) - r["penalty"] for r in rows), Fraction(0))
    return steps


def episode_part(steps, options):
    return grouped(steps, lambda s: s["role"], lambda s: s["total"] - s["penalty"] + s["bonus"], options["normaliser"])


def grpo(group, options):
    steps = flat(group, options)
    first = {}
    for step in steps:
        first.setdefault((step["role"], step["id"][0]), step)
    one = grouped(list(first.values()), lambda s: s["role"], lambda s: s["all"], options["normaliser"])
    return {s["id"]: one[first[(s["role"], s["id"][0])]["id"]] for s in steps}


def joined(steps, values, states, options):
    state = {s["id"]: states.of(s["state"]) for s in steps}
    part = grouped(steps, lambda s: (s["role"], state[s["id"]]), lambda s: values[s["id"]], options["normaliser"])
    base = episode_part(steps, options) if options["episode"] else {}
    return {s["id"]: base.get(s["id"], 0) + options["stepWeight"] * part[s["id"]] for s in steps}


def gigpo(group, options):
    steps = flat(group, options)
    return joined(steps, {s["id"]: s["return"] for s in steps}, States(options["similarity"]), options)


def hgpo(group, options):
    steps = flat(group, options)
    states = States(options["similarity"])
    path = {}
    for s in steps:
        e, t = s["id"]
        path[e, t] = path.get((e, t - 1), ()) + (states.of(s["state"]),)
    base = episode_part(steps, options) if options["episode"] else {}
    out = {}
    for s in steps:
        parts = [(0, base[s["id"]])] if base else []
        for k in range(1, min(options["history"], s["id"][1]) + 2):
            same = [o for o in steps if len(path[o["id"]]) >= k and path[o["id"]][-k:] == path[s["id"]][-k:] and o["role"] == s["role"]]
            values = normalised([o["return"] for o in same], options["normaliser"], 0)
            parts.append((k, values[[o["id"] for o in same].index(s["id"])]))
        parts = [(k, a) for k, a in parts if a != 0]
        weight = sum((k + 1) ** options["alpha"] for k, _ in parts) + EPSILON
        out[s["id"]] = sum((k + 1) ** options["alpha"] / weight * a for k, a in parts)
    return out


def graphgpo(group, options):
    steps = flat(group, options)
    states = States(options["similarity"])
    distance = distances(group, states)
    values = {}
    for s in steps:
        e, t = s["id"]
        won = group[e]["success"] and t + 1 == len(group[e]["steps"])
        d = 0 if won else distance[states.of(s["next"])]
        if options["normalizeDistance"]:
            d += 1 - distance[states.of(s["state"])]
        values[s["id"]] = 10 * exact(options["gamma"]) ** d - s["penalty"]
    return joined(steps, values, states, options)


ESTIMATORS = {"grpo": grpo, "gigpo": gigpo, "hgpo": hgpo, "graphgpo": graphgpo}


def episodes(rng, name, roles, count):
    """A group of episodes of 1 to 7 steps between a few states that many share, with rewards of two decimals on the way."""
    out = []
    for _ in range(count):
        length, success = rng.randint(1, 7), rng.random() < 0.5
        here, steps = name(0), []
        for t in range(length):
            there = name(rng.randint(0, 4))
            last = t + 1 == length
            step = {"state": here, "next": there, "reward": rng.choice([0, 0, 0.25, -0.07]), "isValid": rng.random() < 0.8}
            if last:
                step["reward"] = rng.choice([10, 7.5]) if success else rng.choice([0, 0.5])
            step["bonus"] = rng.choice([0, 0, 0.0069])
            if roles:
                step["role"] = roles[-1] if last else rng.choice(roles)
            steps.append(step)
            here = there
        out.append({"steps": steps, "success": success})
    return out


def case(rng, estimator, similar, roles, **options):
    words = ["overview of the whole recording, mean", "left half of the recording, spectrum", "third", "answer", "dead end"]
    name = (lambda i: f"{words[i]} {rng.choice('0123') if i < 2 else ''}") if similar else (lambda i: f"s{i}")
    defaults = {
        "gamma": 0.95, "stepWeight": 1, "normaliser": "mean_std", "similarity": 0.95 if similar else 1, "history": 2,
        "alpha": 1, "episode": estimator != "hgpo", "normalizeDistance": False, "invalidPenalty": 0.1,
    }
    settings = {**defaults, **options}
    groups = [episodes(rng, name, roles, count) for count in (5, 1, 3)]
    advantages = []
    for group in groups:
        found = ESTIMATORS[estimator](group, settings)
        advantages.append([[float(f"{found[e, t]:.13g}") for t in range(len(episode["steps"]))] for e, episode in enumerate(group)])
    rows = [[{**episode, "steps": [list(step.values()) for step in episode["steps"]]} for episode in group] for group in groups]
    return {"estimator": estimator, "options": settings, "groups": rows, "advantages": advantages}


def main():
    rng = random.Random(20261126)
    cases = []
    for similar in (False, True):
        for roles in ((), ("looks", "answers")):
            for mode in ("mean", "mean_std"):
                shared = {"similar": similar, "roles": roles, "normaliser": mode}
                cases += [
                    case(rng, "grpo", **shared),
                    case(rng, "gigpo", stepWeight=0.7, **shared),
                    case(rng, "hgpo", history=rng.randint(0, 4), alpha=0.5, **shared),
                    case(rng, "hgpo", alpha=2, episode=True, invalidPenalty=0.3, **shared),
                    case(rng, "graphgpo", gamma=0.4, **shared),
                    case(rng, "graphgpo", gamma=0.8, normalizeDistance=True, episode=False, stepWeight=1.3, **shared),
                ]
    texts = ["", "abcd", "bcde", "window 100-200 mean 0.5", "window 110-200 mean 0.6 ", "naïve 𝜋 ≈ 3.14", "naive 𝜋 = 3.1"]
    texts += ["".join(rng.choice("ab \n") for _ in range(length)) for length in (7, 30, 31)]
    long = "".join(rng.choice("abcdefgh") for _ in range(230))
    texts += [long, long[:100] + "z" + long[90:], "".join(chr(97 + i % 26) + chr(200 + i) for i in range(120))]
    ratios = [[i, j, SequenceMatcher(None, a, b).ratio()] for i, a in enumerate(texts) for j, b in enumerate(texts)]
    print(json.dumps({"python": sys.version.split()[0], "cases": cases, "texts": texts, "ratios": ratios}, separators=(",", ":")))


main()
