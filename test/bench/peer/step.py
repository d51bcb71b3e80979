"""One TimerPO step in PyTorch and transformers, as the public releases of the two papers and verl write it.

    python step.py --policy DIR --reference DIR --examples FILE --work FILE [--processes N] [--threads N] [--rows 32]

FILE of `--examples` holds prompt and response of every response (`examples.py`), FILE of `--work` the step's options, traces and
rewards. Question `step`: responses from `generate`, the prompt repeated for each; old log-probabilities, which also give the hidden
states of the responses; log-probabilities of the reference; hidden states of the trace, for each response; transport; advantages;
clipped loss, k3 KL and entropy, backward, AdamW. `--rows` sequences go through the model at once. `generate` samples, but is held to
the responses of the file, so that all sides do the same work. N processes share the prompts and average gradients in shared memory.
"""

import argparse
import json
import time

import torch
from transformers import LogitsProcessor, LogitsProcessorList, Qwen2_5_VLForConditionalGeneration, __version__

from examples import Examples
from serve import serve


class Given(LogitsProcessor):
    """Leaves the next token of a given response alone; the end token after its last."""

    def __init__(self, responses, prompt):
        self.responses, self.prompt = responses, prompt

    def __call__(self, ids, scores):
        token = self.responses[:, ids.shape[1] - self.prompt, None]
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)


def transport(states, mask, trace, trace_mask, epsilon, iterations, tau):
    """exp(−⟨plan, cost⟩ / τ) of responses [B, T, D] and traces [B, S, D]: [B]."""

    def prepared(x, m):
        x = x.double()
        norms = x.norm(dim=-1)
        mass = torch.softmax(norms.masked_fill(~m, -torch.inf), -1).clamp_min(1e-12) * m
        return x / (norms[..., None] + 1e-6), mass / mass.sum(-1, keepdim=True)

    (x, r), (y, c) = prepared(states, mask), prepared(trace, trace_mask)
    cost = (1 - x @ y.transpose(1, 2)).clamp(0, 2)  # [B, T, S]
    kernel = torch.exp(-cost / epsilon)
    u, v = torch.ones_like(r), trace_mask.double()
    for _ in range(iterations):
        u = r / torch.bmm(kernel, v[..., None])[..., 0]
        v = c / torch.bmm(kernel.transpose(1, 2), u[..., None])[..., 0]
    distance = (u[..., None] * kernel * v[:, None] * cost).sum((1, 2))
    return torch.exp(-distance / tau).clamp(0, 1)


def start(rank, size, shared):
    options, gradients, barrier = shared
    torch.set_num_threads(options.threads)
    data = Examples(options.examples)
    work = json.load(open(options.work))
    group, end = work["group"], work["end"]
    count = len(work["traces"])
    first, last = rank * count // size * group, (rank + 1) * count // size * group
    prompt = data.prompt[0]
    assert all(n == prompt for n in data.prompt), "prompts of one length"
    tokens, total = data.tokens[first:last], torch.tensor(data.total[first:last])
    longest = int(total.max())
    tokens = tokens[:, :longest]
    mask = torch.arange(longest) < total[:, None]  # [B, T]
    rewards = torch.tensor(work["rewards"], dtype=torch.float64)[first // group:last // group]
    traces = [torch.tensor(ids) for ids in work["traces"][first // group:last // group]]
    trace = torch.nn.utils.rnn.pad_sequence(traces, batch_first=True, padding_value=work["pad"])
    trace_mask = torch.arange(trace.shape[1]) < torch.tensor([len(ids) for ids in traces])[:, None]
    trace, trace_mask = trace.repeat_interleave(group, 0), trace_mask.repeat_interleave(group, 0)
    given = torch.cat((tokens[:, prompt:], torch.full((last - first, 1), end)), 1)
    given = torch.where(torch.arange(given.shape[1]) < (total - prompt)[:, None], given, end)
    # A group whose responses are all the same has no advantage in it; timeseer leaves it out of the loss, and of its mean.
    texts = [tuple(data.tokens[n, prompt:data.total[n]].tolist()) for n in range(count * group)]
    taught = torch.tensor([len(set(texts[at:at + group])) > 1 for at in range(0, len(texts), group)]).repeat_interleave(group)
    all_tokens = sum(len(text) for text, counts in zip(texts, taught.tolist()) if counts)
    taught = taught[first:last]

    def load(directory):
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(directory, dtype=torch.float32)
        model.config.use_cache = False
        return model

    model, reference = load(options.policy), load(options.reference).eval().requires_grad_(False)
    image = model.config.image_token_id
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=0.0, betas=tuple(work["betas"]), weight_decay=0.0, fused=True)

    def inputs(rows, tokens, mask):
        pixels, grid = data.pixels(first + rows.start, first + rows.stop)
        return dict(
            input_ids=tokens, attention_mask=mask.long(), mm_token_type_ids=(tokens == image).int(),
            pixel_values=pixels, image_grid_thw=grid,
        )

    def parts():
        return [slice(at, min(at + options.rows, last - first)) for at in range(0, last - first, options.rows)]

    def log_probs(net, rows, entropy=False):
        """Hidden states of whole sequences [b, T, D], and log-probabilities (and entropies) of response tokens [b, T − P]."""
        hidden = net.model(**inputs(rows, tokens[rows], mask[rows]), use_cache=False).last_hidden_state
        logits = net.lm_head(hidden[:, prompt - 1:-1]) + data.forbidden
        every = torch.log_softmax(logits / work["temperature"], -1)
        picked = every.gather(-1, tokens[rows, prompt:, None])[..., 0]
        return hidden, picked, -(every.exp() * every).sum(-1) if entropy else None

    def sample():
        rows = slice(0, last - first)
        limit = longest - prompt
        made = model.generate(
            **inputs(rows, tokens[:, :prompt], torch.ones_like(mask[:, :prompt])), max_new_tokens=limit, do_sample=True, use_cache=True,
            temperature=work["temperature"], top_k=0, top_p=1.0, eos_token_id=end, pad_token_id=work["pad"],
            logits_processor=LogitsProcessorList([Given(given, prompt)]),
        )
        same = made[:, prompt:] == tokens[:, prompt:made.shape[1]]
        assert made.shape[1] == longest and bool((same | ~mask[:, prompt:]).all()), "generate was not held to the responses"

    def step(_):
        if size > 1:
            barrier.wait()
        ms, began = {}, time.perf_counter()

        def lap(name):
            nonlocal began
            now = time.perf_counter()
            ms[name], began = 1000 * (now - began), now

        own = mask[:, prompt:]
        with torch.no_grad():
            model.eval()
            sample()
            lap("rollout")
            old = [log_probs(model, rows) for rows in parts()]
            states, old = torch.cat([hidden[:, prompt:] for hidden, _, _ in old]), torch.cat([values for _, values, _ in old])
            lap("old")
            traced = torch.cat([
                model.model(input_ids=trace[rows], attention_mask=trace_mask[rows].long(), use_cache=False).last_hidden_state
                for rows in parts()
            ])
            similarity = transport(states, own, traced, trace_mask, work["epsilon"], work["iterations"], work["tau"])
            lap("transport")
            main = rewards - rewards.mean(1, keepdim=True)
            grounded = similarity.view(-1, group)
            grounded = grounded - grounded.mean(1, keepdim=True)
            along = (grounded * main).sum(1, keepdim=True) / ((main * main).sum(1, keepdim=True) + 1e-8)
            advantage = (main + work["alpha"] * (grounded - along * main)).flatten().float()  # [B]
            base = torch.cat([log_probs(reference, rows)[1] for rows in parts()])
            lap("reference")
        model.train()
        optimizer.zero_grad(set_to_none=True)
        sums = dict(loss=0.0, kl=0.0, entropy=0.0)
        for rows in parts():
            _, new, entropy = log_probs(model, rows, entropy=True)
            ratio = torch.exp(new - old[rows])
            low, high = 1 - work["clipRatio"], 1 + work["clipRatio"]
            gain = torch.minimum(ratio * advantage[rows, None], ratio.clamp(low, high) * advantage[rows, None])
            apart = (base[rows] - new).clamp(-20, 20)
            k3 = (apart.exp() - apart - 1).clamp(-10, 10)
            each = work["kl"] * k3 - gain - work["entropy"] * entropy
            counted = own[rows] & taught[rows, None]
            loss = each[counted].sum() / all_tokens
            loss.backward()
            for name, value in dict(loss=each, kl=k3, entropy=entropy).items():
                sums[name] += value.detach()[counted].sum().item() / all_tokens
        if size > 1:
            flat = torch.cat([p.grad.reshape(-1) for p in parameters if p.grad is not None])
            gradients[rank, :flat.numel()] = flat
            barrier.wait()
            summed = gradients[:, :flat.numel()].sum(0)
            barrier.wait()
            trained = [p for p in parameters if p.grad is not None]
            for p, part in zip(trained, summed.split([p.numel() for p in trained])):
                p.grad = part.view_as(p)
        norm = torch.nn.utils.clip_grad_norm_(parameters, work["clip"]).item()
        optimizer.step()
        lap("update")
        ms["reference"] += ms.pop("old")
        squares = advantage.double().square().mean().item()
        return dict(**sums, gradNorm=norm, similarity=similarity.mean().item(), advantage=squares ** 0.5, ms=dict(data=0.0, **ms))

    return step


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--policy", "--reference", "--examples", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=32)
    options = parser.parse_args()
    size = options.processes
    room = torch.zeros(size, (1 << 26) if size > 1 else 1).share_memory_()  # up to 67 M parameters
    barrier = torch.multiprocessing.get_context("spawn").Barrier(size)
    serve(start, size, (options, room, barrier), f"torch {torch.__version__}, transformers {__version__}")
