"""Writes adamw.json: ten steps of torch.optim.AdamW in float64, with two decay groups. Needs PyTorch."""
import json
import os

import torch

torch.manual_seed(7)
options = {"learningRate": 0.03, "beta1": 0.85, "beta2": 0.97, "epsilon": 1e-7}
start = torch.randn(7, dtype=torch.float64)
gradients = torch.randn(10, 7, dtype=torch.float64) * torch.tensor([1, 1e-3, 5, 1, 0, 1e-8, 2], dtype=torch.float64)
decayed = torch.nn.Parameter(start[:4].clone())
plain = torch.nn.Parameter(start[4:].clone())
optimizer = torch.optim.AdamW(
    [{"params": [decayed], "weight_decay": 0.2}, {"params": [plain], "weight_decay": 0.0}],
    lr=options["learningRate"], betas=(options["beta1"], options["beta2"]), eps=options["epsilon"],
)
parameters = []
for gradient in gradients:
    decayed.grad, plain.grad = gradient[:4].clone(), gradient[4:].clone()
    optimizer.step()
    parameters.append(torch.cat([decayed, plain]).tolist())
with open(os.path.join(os.path.dirname(__file__), "adamw.json"), "w") as file:
    json.dump({"source": f"make_adamw.py, torch {torch.__version__}", "options": options, "decay": [0.2] * 4 + [0.0] * 3,
               "start": start.tolist(), "gradients": gradients.tolist(), "parameters": parameters}, file)
    file.write("\n")
