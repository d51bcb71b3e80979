"""Batched decoding in PyTorch of the prompts of a file.

    python decode.py --model lean|transformers --policy DIR --examples FILE --samples 8 [--processes N]

`transformers` is `generate` of Qwen2_5_VLForConditionalGeneration; `lean` the hand-written model in a loop with
preallocated caches: each prompt is encoded once and its cache repeated for its samples, and it draws from the file's
numbers, so that it samples what timeseer samples. N processes share the prompts. Questions `greedy N` (one response to
each prompt, at most N tokens) and `sampled N`: the ids of every response.
"""

import argparse

import torch
import torch.nn.functional as F

from examples import Examples
from serve import serve


class LeanModel:
    def __init__(self, options):
        from lean import Lean

        self.policy, self.options = Lean(options.policy, options.device), options

    def respond(self, data, start, end, samples, limit, greedy):
        policy, device, end_token = self.policy, data.device, self.options.end
        length = data.prompt[start]
        assert all(n == length for n in data.prompt[start:end]), "prompts of one length"
        tokens, text = data.tokens[start:end, :length].to(device), policy.text
        kv, width = text["num_key_value_heads"], text["hidden_size"] // text["num_attention_heads"]

        def room(rows, steps):
            return [(torch.zeros(rows, kv, steps, width, device=device), torch.zeros(rows, kv, steps, width, device=device)) for _ in policy.layers]

        encoded = room(end - start, length)
        x = policy.embedded(tokens, data.patches[start:end], data.grid)
        cos, sin = policy.tables(data.positions[:, start:end, :length].to(device))
        last = torch.arange(1, end - start + 1, device=device) * length - 1
        states = policy.decode(x, cos, sin, encoded, 0, last)
        batch = (end - start) * samples
        cache = room(batch, length + limit)
        for own, shared in zip(cache, encoded):
            for whole, part in zip(own, shared):
                whole[:, :, :length] = part.repeat_interleave(samples, 0)
        states = states.repeat_interleave(samples, 0)
        first = data.positions[0, start, length - 1] + 1  # the prompt ends with text: its largest position
        positions = (first + torch.arange(limit)).expand(3, 1, -1).to(device)
        cos, sin = policy.tables(positions)
        draws = None if greedy else data.draws[start * samples:end * samples].double()
        ended = torch.zeros(batch, dtype=torch.bool, device=device)
        out, lengths = [], torch.full((batch,), limit, device=device)
        for t in range(limit):
            logits = F.linear(states, policy.embed) + data.forbidden
            if greedy:
                ids = logits.argmax(-1)
            else:
                mass = torch.softmax(logits, -1).cumsum(-1, dtype=torch.float64)
                ids = torch.searchsorted(mass, draws[:, t, None] * mass[:, -1:], right=True)[:, 0]
            out.append(ids)
            lengths.masked_fill_((ids == end_token) & ~ended, t + 1)
            ended |= ids == end_token
            if bool(ended.all()) or t + 1 == limit:
                break
            states = policy.decode(F.embedding(ids, policy.embed)[:, None], cos[:, t:t + 1], sin[:, t:t + 1], cache, length + t)
        return [row[:n] for row, n in zip(torch.stack(out, 1).tolist(), lengths.tolist())]


class TransformersModel:
    def __init__(self, options):
        from transformers import Qwen2_5_VLForConditionalGeneration

        self.options = options
        self.model = Qwen2_5_VLForConditionalGeneration.from_pretrained(options.policy, dtype=torch.float32).to(options.device).eval()

    def respond(self, data, start, end, samples, limit, greedy):
        length = data.prompt[start]
        tokens = data.tokens[start:end, :length].to(data.device)
        pixels, grid = data.pixels(start, end)
        end_token = self.options.end
        made = self.model.generate(
            input_ids=tokens, attention_mask=torch.ones_like(tokens), pixel_values=pixels, image_grid_thw=grid,
            mm_token_type_ids=(tokens == self.model.config.image_token_id).int(),
            max_new_tokens=limit, do_sample=not greedy, num_return_sequences=samples,
            suppress_tokens=(data.forbidden < 0).nonzero()[:, 0].tolist(), eos_token_id=end_token, pad_token_id=self.options.pad,
            **({} if greedy else dict(temperature=1.0, top_k=0, top_p=1.0)),
        )[:, length:].tolist()
        return [row[: row.index(end_token) + 1] if end_token in row else row for row in made]


def start(rank, size, options):
    data = Examples(options.examples, options.device)
    model = (LeanModel if options.model == "lean" else TransformersModel)(options)
    count = len(data.total)
    first, last = rank * count // size, (rank + 1) * count // size

    @torch.inference_mode()
    def answer(question):
        mode, limit = question.split()
        samples = 1 if mode == "greedy" else options.samples
        return model.respond(data, first, last, samples, int(limit), mode == "greedy")

    return answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["lean", "transformers"], required=True)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--examples", required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--end", type=int, required=True)
    parser.add_argument("--pad", type=int, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    versions = f"torch {torch.__version__}"
    if options.model == "transformers":
        import transformers

        versions += f", transformers {transformers.__version__}"
    serve(start, options.processes, options, versions)
