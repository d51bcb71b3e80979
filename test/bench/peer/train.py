"""Supervised updates in PyTorch on the examples of a file: forward, backward, reduction, AdamW.

    python train.py --model lean|transformers --policy DIR --examples FILE --batch 8 [--processes N] [--device cuda]

`transformers` is Qwen2_5_VLForConditionalGeneration loaded from the same directory; `lean` is the hand-written one. N
processes share each batch and average gradients in shared memory. Question `round`: the loss per token of every batch.
"""

import argparse

import torch
import torch.nn.functional as F

from examples import Examples
from serve import serve


class LeanModel:
    def __init__(self, directory, device):
        from lean import Lean

        self.policy = Lean(directory, device)
        self.parameters = self.policy.parameters

    def prepare(self, data, start, end):
        policy, longest = self.policy, max(data.total[start:end]) - 1  # the end token is not fed
        tokens = data.tokens[start:end, :longest]
        rows, targets = [], []
        for b, n in enumerate(range(start, end)):
            for t in range(data.prompt[n] - 1, data.total[n] - 1):
                rows.append(b * longest + t)
                targets.append(data.tokens[n, t + 1])
        device = data.device
        positions = data.positions[:, start:end, :longest].to(device)
        rows, targets = torch.tensor(rows, device=device), torch.stack(targets).to(device)

        def loss():
            x = policy.embedded(tokens.to(device), data.patches[start:end], data.grid)
            states = policy.decode(x, *policy.tables(positions), rows=rows)  # [K, D]
            return F.cross_entropy(F.linear(states, policy.embed), targets, reduction="sum")

        return loss, len(rows)


class TransformersModel:
    def __init__(self, directory, device):
        from transformers import Qwen2_5_VLForConditionalGeneration

        self.model = Qwen2_5_VLForConditionalGeneration.from_pretrained(directory, dtype=torch.float32).to(device).train()
        self.model.config.use_cache = False
        self.parameters = list(self.model.parameters())

    def prepare(self, data, start, end):
        longest = max(data.total[start:end])
        tokens = data.tokens[start:end, :longest]
        place = torch.arange(longest)
        total, prompt = (torch.tensor(values[start:end])[:, None] for values in (data.total, data.prompt))
        labels = tokens.masked_fill((place >= total) | (place < prompt), -100)
        pixels, grid = data.pixels(start, end)
        inputs = dict(
            input_ids=tokens, attention_mask=(place < total).long(), labels=labels,
            mm_token_type_ids=(tokens == self.model.config.image_token_id).int(),
        )
        inputs = {name: value.to(data.device) for name, value in inputs.items()}

        def loss():
            result = self.model(**inputs, pixel_values=pixels, image_grid_thw=grid, use_cache=False, num_items_in_batch=1)
            return result.loss

        return loss, int((labels != -100).sum())


def start(rank, size, shared):
    options, gradients, barrier = shared
    data = Examples(options.examples, options.device)
    model = (LeanModel if options.model == "lean" else TransformersModel)(options.policy, options.device)
    matrices = [p for p in model.parameters if p.ndim > 1]
    vectors = [p for p in model.parameters if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [dict(params=matrices, weight_decay=options.decay), dict(params=vectors, weight_decay=0.0)],
        lr=options.rate, betas=(0.9, 0.95), eps=1e-8, fused=True,
    )
    share = options.batch // size
    batches = [
        model.prepare(data, at + rank * share, at + (rank + 1) * share) for at in range(0, len(data.total), options.batch)
    ]
    counts = [sum(total - prompt for total, prompt in zip(data.total[at:at + options.batch], data.prompt[at:at + options.batch]))
              for at in range(0, len(data.total), options.batch)]

    def reduce():
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters])
        gradients[rank, : flat.numel()] = flat
        barrier.wait()
        total = gradients[:, : flat.numel()].sum(0).to(flat.device)
        barrier.wait()
        for p, part in zip(model.parameters, total.split([p.numel() for p in model.parameters])):
            p.grad = part.view_as(p)

    def answer(question):
        losses = []
        for (loss, _), count in zip(batches, counts):
            value = loss() / count
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            if size > 1:
                reduce()
            torch.nn.utils.clip_grad_norm_(model.parameters, options.clip)
            optimizer.step()
            losses.append(value.item())
        return losses

    return answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["lean", "transformers"], required=True)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--examples", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--decay", type=float, required=True)
    parser.add_argument("--clip", type=float, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    size = options.processes
    room = torch.zeros(size, 1 << 21 if size > 1 else 1).share_memory_()  # up to 2 M parameters
    barrier = torch.multiprocessing.get_context("spawn").Barrier(size)
    versions = f"torch {torch.__version__}"
    if options.model == "transformers":
        import transformers

        versions += f", transformers {transformers.__version__}"
    serve(start, size, (options, room, barrier), versions)
