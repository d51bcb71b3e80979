"""Answers questions on standard input with one JSON array per line, an element per process.

A peer gives `start(rank, size, shared)`, which returns a function from a question to a JSON value. Processes beyond the
first are spawned; `shared` is what the first one made for all of them.
"""

import json
import sys

import torch
import torch.multiprocessing as mp


def _child(start, rank, size, shared, pipe):
    torch.set_num_threads(1)
    answer = start(rank, size, shared)
    pipe.send("ready")
    for question in iter(pipe.recv, None):
        pipe.send(answer(question))


def serve(start, size, shared, versions):
    torch.set_num_threads(1)
    context = mp.get_context("spawn")
    pipes, children = [], []
    for rank in range(1, size):
        pipe, end = context.Pipe()
        child = context.Process(target=_child, args=(start, rank, size, shared, end), daemon=True)
        child.start()
        pipes.append(pipe)
        children.append(child)
    answer = start(0, size, shared)
    for pipe in pipes:
        pipe.recv()
    print(json.dumps({"versions": versions}), flush=True)
    for line in sys.stdin:
        question = line.strip()
        for pipe in pipes:
            pipe.send(question)
        answers = [answer(question)] + [pipe.recv() for pipe in pipes]
        print(json.dumps(answers), flush=True)
    for pipe in pipes:
        pipe.send(None)
    for child in children:
        child.join()
