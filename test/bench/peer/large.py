"""The passes of a full-size policy in transformers, as its users write them.

    python large.py --policy DIR --work DIR [--device cuda] [--dtype bfloat16] [--threads N] [--rows 8] [--attention sdpa]

DIR of `--work` holds `work.json` and `patches.f32`, which `large.ts` writes. Questions: `forward` (prompts to the logits of
their last token), `backward` (supervised loss of prompt and response, gradients), `greedy B N` (N tokens of B prompts) and
`grpo` (one on-policy update of every prompt with its group: forward, backward, clipping, AdamW; `--rows` sequences at a
time, each with its own prompt). Answers: what was computed, so that it can be compared, and the peak of device memory.
"""

import argparse
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F


class Work:
    def __init__(self, directory, device, dtype):
        self.raw = json.load(open(os.path.join(directory, "work.json")))
        self.prompts = torch.tensor(self.raw["prompts"], device=device)  # [P, Tp]
        self.responses = torch.tensor(self.raw["responses"], device=device)  # [P, G, T]
        self.advantages = torch.tensor(self.raw["advantages"], device=device)  # [P, G]
        self.grid = torch.tensor([self.raw["grid"]], device=device)  # [1, 3]
        flat = torch.from_numpy(np.fromfile(os.path.join(directory, "patches.f32"), dtype=np.float32)).to(device)
        patches = flat.view(len(self.prompts), -1, 3, 1, self.raw["patchPixels"])  # [P, L, 3, 1, p²]
        self.patches = patches.expand(-1, -1, 3, 2, -1).flatten(2).to(dtype)  # both frames of a still image are equal

    def pixels(self, rows):
        return dict(pixel_values=self.patches[rows].flatten(0, 1), image_grid_thw=self.grid.expand(len(rows), 3))


def main(options):
    from transformers import Qwen2_5_VLForConditionalGeneration, __version__

    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    work = Work(options.work, options.device, dtype)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
        options.policy, dtype=dtype, attn_implementation=options.attention
    ).to(options.device)
    image = model.config.image_token_id
    optimizer = None

    def inputs(tokens):
        return dict(input_ids=tokens, attention_mask=torch.ones_like(tokens), mm_token_type_ids=(tokens == image).int())

    def log_probs(tokens, rows, prompt):
        # [B, T + 1, V] at most: logits of the response alone
        count = tokens.shape[1] - prompt
        logits = model(**inputs(tokens), **work.pixels(rows), use_cache=False, logits_to_keep=count + 1).logits[:, :-1]
        return torch.log_softmax(logits.float(), -1).gather(-1, tokens[:, prompt:, None])[..., 0]

    def gradients():
        return {name: p.grad.float().norm().item() for name, p in model.named_parameters() if p.grad is not None}

    def forward():
        with torch.inference_mode():
            rows = list(range(len(work.prompts)))
            logits = model(**inputs(work.prompts), **work.pixels(rows), use_cache=True, logits_to_keep=1).logits[:, -1]
        return {"logits": logits[:, :8].float().flatten().tolist()}

    def backward():
        model.zero_grad(set_to_none=True)
        tokens = torch.cat((work.prompts, work.responses[:, 0]), 1)
        loss = -log_probs(tokens, list(range(len(tokens))), work.prompts.shape[1]).mean()
        loss.backward()
        return {"loss": loss.item(), "gradients": gradients()}

    def greedy(batch, limit):
        rows = [n % len(work.prompts) for n in range(batch)]
        with torch.inference_mode():
            made = model.generate(
                **inputs(work.prompts[rows]), **work.pixels(rows), max_new_tokens=limit, min_new_tokens=limit, do_sample=False,
                suppress_tokens=work.raw["forbidden"], eos_token_id=work.raw["end"], pad_token_id=work.raw["pad"],
            )
        return {"ids": made[:, work.prompts.shape[1]:].tolist()}

    def grpo():
        nonlocal optimizer
        if optimizer is None:
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0, fused=True)
        optimizer.zero_grad(set_to_none=True)
        prompts, group, length = work.responses.shape
        total, mean = prompts * group * length, 0.0
        pairs = [(p, g) for p in range(prompts) for g in range(group)]
        for at in range(0, len(pairs), options.rows):
            rows = [p for p, _ in pairs[at:at + options.rows]]
            members = [g for _, g in pairs[at:at + options.rows]]
            tokens = torch.cat((work.prompts[rows], work.responses[rows, members]), 1)
            new = log_probs(tokens, rows, work.prompts.shape[1])  # [B, T]
            ratio = torch.exp(new - new.detach())
            advantage = work.advantages[rows, members][:, None]
            loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).sum() / total
            loss.backward()
            mean += new.detach().sum().item() / total
        found = gradients()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        return {"logProb": mean, "norm": norm, "gradients": found}

    def answer(question):
        name, *numbers = question.split()
        model.train(name in ("backward", "grpo"))
        cuda = options.device.startswith("cuda")
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        result = {"forward": forward, "backward": backward, "greedy": greedy, "grpo": grpo}[name](*map(int, numbers))
        if name not in ("backward", "grpo"):
            model.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.synchronize()
            result["peak"] = torch.cuda.max_memory_allocated()
        return result

    print(json.dumps({"versions": f"torch {torch.__version__}, transformers {__version__}"}), flush=True)
    for line in sys.stdin:
        try:
            print(json.dumps([answer(line.strip())]), flush=True)
        except torch.cuda.OutOfMemoryError:
            optimizer = None
            model.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            print(json.dumps([{"failed": "out of memory"}]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--processes", type=int, default=1)
    main(parser.parse_args())
