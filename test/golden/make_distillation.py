"""Makes test/golden/distillation.json: losses of self-distillation and their gradients as TRL computes them.

    python test/golden/make_distillation.py > test/golden/distillation.json        (versions: `made_with`)

Logits of a student and of a teacher at six tokens over nine words, one of which is masked as forbidden words are, with a
temperature; TRL's full-vocabulary divergences (alpha 1: reverse KL, 0: forward KL, 0.5: Jensen-Shannon) and its sampled-token
loss, each with the gradient of its sum with respect to the student's logits.
"""

import json

import torch
import trl
from trl.experimental.sdft.loss_utils import (
    compute_full_logit_self_distillation_loss,
    compute_sampled_token_self_distillation_loss,
)

torch.manual_seed(7)
TOKENS, VOCABULARY, TEMPERATURE = 6, 9, 0.7
student = 2 * torch.randn(TOKENS, VOCABULARY, dtype=torch.float64)
teacher = 2 * torch.randn(TOKENS, VOCABULARY, dtype=torch.float64)
teacher[4] = student[4]  # a token of which both think alike
mask = torch.zeros(VOCABULARY, dtype=torch.float64)
mask[3] = -1e9
ids = torch.tensor([0, 8, 5, 5, 1, 7])


def scaled(logits):
    return (logits + mask) / TEMPERATURE


def case(loss):
    leaf = student.clone().requires_grad_(True)
    value = loss(scaled(leaf), scaled(teacher))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return {"value": value.detach().tolist(), "gradient": gradient.tolist()}


def full(alpha):
    return lambda s, t: compute_full_logit_self_distillation_loss(s, t, distillation_alpha=alpha)


def sampled(s, t):
    return compute_sampled_token_self_distillation_loss(s[None], t[None], ids[None], distillation_alpha=1.0)[0]


print(
    json.dumps(
        {
            "made_with": {"trl": trl.__version__, "torch": torch.__version__},
            "temperature": TEMPERATURE,
            "mask": mask.tolist(),
            "student": student.tolist(),
            "teacher": teacher.tolist(),
            "ids": ids.tolist(),
            "reverse_kl": case(full(1.0)),
            "forward_kl": case(full(0.0)),
            "jsd": case(full(0.5)),
            "sampled": case(sampled),
        },
        indent=1,
    )
)
