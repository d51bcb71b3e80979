"""Writes muon.json: steps of torch.optim.Muon, with its orthogonalisation in float64 and as released (bfloat16). Needs PyTorch of 2.9 or later."""
import json
import os

import torch
import torch.optim._muon as muon

torch.manual_seed(11)
SHAPES = [(3, 7), (6, 4), (5, 5)]
STEPS = 6
options = {"learningRate": 0.02, "weightDecay": 0.3}
starts = [torch.randn(shape, dtype=torch.float64) for shape in SHAPES]
gradients = [[torch.randn(shape, dtype=torch.float64) * 10.0 ** (step - 3) for shape in SHAPES] for step in range(STEPS)]


def run():
    parameters = [torch.nn.Parameter(start.clone()) for start in starts]
    optimizer = torch.optim.Muon(parameters, lr=options["learningRate"], weight_decay=options["weightDecay"], adjust_lr_fn="match_rms_adamw")
    steps = []
    for of_step in gradients:
        for parameter, gradient in zip(parameters, of_step):
            parameter.grad = gradient.clone()
        optimizer.step()
        steps.append([parameter.tolist() for parameter in parameters])
    return steps


class Exact:
    """Stands for torch in torch.optim._muon: its bfloat16 is float64."""

    bfloat16 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


released = run()
muon.torch = Exact()
exact = run()
with open(os.path.join(os.path.dirname(__file__), "muon.json"), "w") as file:
    json.dump({"source": f"make_muon.py, torch {torch.__version__}", "options": options, "start": [start.tolist() for start in starts],
               "gradients": [[gradient.tolist() for gradient in of_step] for of_step in gradients], "exact": exact, "released": released[-1]}, file)
    file.write("\n")
