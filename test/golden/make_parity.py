"""Makes test/golden/parity: what transformers computes with small random Qwen2.5-VL configurations.

    python test/golden/make_parity.py test/golden/qwen test/golden/parity     (versions: `made_with` in parity.json)

The first argument is the checkpoint of make_qwen.py: its tokenizer and chat template serve all configurations here.
The configurations are unlike each other and unlike the published ones on purpose: window sizes, full-attention blocks,
grouped queries of 1, 2, 4 and 8, patch, merge and frame sizes, unequal M-RoPE sections, tied and untied heads, several
images per prompt, prompts of unequal length in one batch, more than 1000 positions, a vocabulary beyond the tokenizer.

Weights are not stored. `uniform` makes number i of a named stream from integers alone, so that the tests make the same
float32 weights bit for bit. Pictures come from the formula in `picture`. Tensors that are small are stored whole; of the
others, seen as a matrix, stand here the products with one pseudo-random vector from the right and one from the left, and
some elements: any misplaced or wrong element changes both products. The sums are made in float64.

The seed of a configuration is the first under which greedy decoding is no coin toss: see `usable`.
"""

import json
import os
import platform
import sys

import numpy as np
import PIL
import tokenizers
import torch
import torchvision
import transformers
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.vision_utils import get_vision_window_index

checkpoint, out = sys.argv[1:3]
os.makedirs(out, exist_ok=True)
torch.set_num_threads(1)
torch.manual_seed(0)  # nothing below draws from it

GREEDY = 64
TEMPERATURE = 0.7
WHOLE = {'state': 4096, 'gradient': 768}  # most elements of a tensor that is stored whole
SAMPLES = 48

# ---- numbers that both sides can make -------------------------------------------------------------------------


def key(text):
    """32-bit FNV-1a."""
    h = 0x811C9DC5
    for byte in text.encode():
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return h


def uniform(stream, count):
    """Numbers 0 … count − 1 of a stream: float32 in [−1, 1), multiples of 2⁻²³."""
    x = np.arange(count, dtype=np.uint64) * 0x9E3779B1 + key(stream) & 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    x ^= x >> 13
    x = x * 0xC2B2AE35 & 0xFFFFFFFF
    x ^= x >> 16
    return ((x >> 8).astype(np.float64) * 2.0**-23 - 1).astype(np.float32)


def published(name):
    return name.replace('model.language_model.', 'model.').replace('model.visual.', 'visual.')


def weights(name, shape, seed, embedding, patch):
    """Values of a parameter: norms around one, biases around zero, matrices with standard deviation 1.2 / √(inputs)."""
    size = int(np.prod(shape))
    u = uniform(f'{seed}/{name}', size)
    if len(shape) == 1:
        scaled = u * np.float32(0.4)
        values = scaled if name.endswith('bias') else np.float32(1) + scaled
    elif 'embed_tokens' in name:
        values = u * np.float32(embedding)
    else:
        values = u * np.float32(1.2 * np.sqrt(3 / (size / shape[0])) * (patch if 'patch_embed' in name else 1))
    return values.reshape(shape)


def picture(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing='ij')
    return ((x * 7 + y * 13 + c * 29 + (x * y) // 3) % 256).astype(np.uint8)  # [height, width, 3]


def words(stream, count):
    """Text of `count` words out of the alphabet and some signs, of 1 to 7 letters each."""
    u = (uniform(stream, 8 * count).reshape(count, 8) + 1) / 2
    letters = 'etaoinshrdlucmfwypvbgkjqxz0123456789,.;:()'
    return ' '.join(''.join(letters[int(v * v * len(letters))] for v in row[: 1 + int(7 * row[7])]) for row in u)


# ---- what is stored ---------------------------------------------------------------------------------------------
arrays = {}


def sketch(name, tensor, kind='state'):
    """The pieces that stand for a tensor: all of it, or two products and some elements."""
    x = tensor.detach().double()
    if x.numel() <= WHOLE[kind]:
        return {name: x.float().flatten()}
    x = x.reshape(x.shape[0], -1)
    rows, columns = x.shape
    right = torch.from_numpy(uniform('right', columns)).double()
    left = torch.from_numpy(uniform('left', rows)).double()
    places = ((uniform('places', SAMPLES).astype(np.float64) + 1) / 2 * x.numel()).astype(np.int64)
    return {f'{name}#rows': (x @ right).float(), f'{name}#columns': (left @ x).float(), f'{name}#some': x.flatten()[places].float()}


def store(name, tensor, kind='state'):
    arrays.update(sketch(name, tensor, kind))


# ---- one forward and backward pass with everything on the way ---------------------------------------------------


class Run:
    """A batch through the model: states after every vision block and decoder layer, logits, and on demand gradients."""

    def __init__(self, model, inputs):
        self.blocks, self.layers = [], []
        hooks = [b.register_forward_hook(lambda _m, _i, o: self.blocks.append(o)) for b in model.model.visual.blocks]
        hooks += [x.register_forward_hook(lambda _m, _i, o: self.layers.append(o)) for x in model.model.language_model.layers]
        done = model.model(**inputs, use_cache=False)
        for hook in hooks:
            hook.remove()
        self.keep = inputs['attention_mask'].bool()
        self.hidden = done.last_hidden_state
        self.logits = model.lm_head(self.hidden)  # [B, T, V]
        self.inputs = inputs
        self.model = model

    def vision(self):
        """The merger's output after each number of blocks, in reading order; the last is what the decoder gets."""
        visual = self.model.model.visual
        index, _ = get_vision_window_index(
            self.inputs['image_grid_thw'], spatial_merge_size=visual.spatial_merge_size, window_size=visual.window_size, patch_size=visual.patch_size)
        back = torch.argsort(index)
        return [visual.merger(block)[back] for block in self.blocks]

    def states(self):
        """The final norm of the state after each layer, padding left out: [N, D]."""
        return [self.model.model.language_model.norm(state)[self.keep] for state in self.layers]

    def log_probs(self):
        """Of every token but the first of each row, padding left out: [N − B]."""
        scores = torch.log_softmax(self.logits[:, :-1].float(), -1)
        picked = scores.gather(2, self.inputs['input_ids'][:, 1:, None])[..., 0]
        return picked[self.keep[:, 1:]]


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {published(n): torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def weighted(log_probs):
    """−Σ w · log p / K, the weights between ½ and 1½ and all different."""
    w = torch.from_numpy(1 + uniform('loss', len(log_probs)) / 2)
    return -(w * log_probs).sum() / len(log_probs)


# ---- configurations ---------------------------------------------------------------------------------------------
fast = AutoTokenizer.from_pretrained(checkpoint)
ids = {t: fast.convert_tokens_to_ids(t) for t in
       ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|vision_start|>', '<|vision_end|>', '<|image_pad|>', '<|video_pad|>']}
IMAGE = {'type': 'image'}


def say(*content, system=None):
    parts = [{'type': 'text', 'text': c} if isinstance(c, str) else c for c in content]
    return ([{'role': 'system', 'content': system}] if system else []) + [{'role': 'user', 'content': parts}]


CASES = [
    dict(
        name='windows cut at two edges', vocab=296, embedding=1.7, tied=False, bf16=True, group=3,
        text=dict(hidden_size=32, intermediate_size=44, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6),
        rope=(1e4, [1, 1, 2]),
        vision=dict(depth=3, hidden_size=24, intermediate_size=36, num_heads=2, patch_size=14, spatial_merge_size=2, temporal_patch_size=2, window_size=56, fullatt_block_indexes=[1]),
        rows=[(say('compare', IMAGE, ' and ', IMAGE, system='be brief'), [(140, 84), (84, 56)]), (say(IMAGE, 'series of 12'), [(84, 140)])],
    ),
    dict(
        name='window larger than the image, no full attention', vocab=304, embedding=0.5, tied=True, bf16=True,
        text=dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, rms_norm_eps=1e-6),
        rope=(1e4, [3, 1, 2]),
        vision=dict(depth=2, hidden_size=40, intermediate_size=52, num_heads=5, patch_size=14, spatial_merge_size=2, temporal_patch_size=2, window_size=448, fullatt_block_indexes=[]),
        rows=[(say('find the trend'), []), (say(IMAGE, 'what is it?'), [(112, 56)]), (say('a', IMAGE), [(28, 84)])],
    ),
    dict(
        name='full attention everywhere, three images', vocab=288, embedding=1.7, tied=False,
        text=dict(hidden_size=64, intermediate_size=60, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, rms_norm_eps=1e-6),
        rope=(1e4, [1, 2, 1]),
        vision=dict(depth=3, hidden_size=36, intermediate_size=44, num_heads=3, patch_size=8, spatial_merge_size=3, temporal_patch_size=1, window_size=48, fullatt_block_indexes=[0, 1, 2]),
        rows=[(say(IMAGE, IMAGE, ' then ', IMAGE, 'which differs?'), [(72, 48), (48, 120), (96, 72)])],
    ),
    dict(
        name='one key head, windows cut at one edge, 300 visual tokens', vocab=296, embedding=1.7, tied=False,
        patch=0.002,  # so small that the norms' epsilon counts
        text=dict(hidden_size=48, intermediate_size=52, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=1, rms_norm_eps=1e-6),
        rope=(1e4, [1, 0, 2]),
        vision=dict(depth=2, hidden_size=16, intermediate_size=28, num_heads=1, patch_size=6, spatial_merge_size=1, temporal_patch_size=3, window_size=20, fullatt_block_indexes=[0]),
        rows=[(say('see', IMAGE, words('short', 12)), [(120, 90)])],
    ),
    dict(
        name='more than a thousand positions', vocab=296, embedding=0.5, tied=True,
        text=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-6),
        rope=(1e6, [2, 3, 3]),
        vision=dict(depth=1, hidden_size=16, intermediate_size=20, num_heads=1, patch_size=14, spatial_merge_size=2, temporal_patch_size=2, window_size=112, fullatt_block_indexes=[]),
        rows=[(say(words('before', 120), IMAGE, words('behind', 170)), [(168, 140)])],
    ),
    dict(
        name='five prompts of unequal length in one batch', vocab=320, embedding=1.7, tied=False, group=2,
        text=dict(hidden_size=40, intermediate_size=36, num_hidden_layers=3, num_attention_heads=10, num_key_value_heads=5, rms_norm_eps=0.02),
        rope=(5e3, [1, 0, 1]),
        vision=dict(depth=4, hidden_size=32, intermediate_size=40, num_heads=4, patch_size=14, spatial_merge_size=2, temporal_patch_size=2, window_size=100, fullatt_block_indexes=[1, 3]),
        rows=[
            (say(IMAGE, 'one'), [(140, 56)]), (say(words('alone', 40)), []), (say('x', IMAGE, IMAGE, 'y', IMAGE, words('third', 9)), [(28, 28), (196, 84), (84, 112)]),
            (say('no'), []), (say(IMAGE, words('fifth', 25), IMAGE, system='look twice'), [(56, 168), (112, 112)]),
        ],
    ),
    dict(
        name='published heads of 128 and 80', vocab=296, embedding=0.2, tied=True, bf16=True, group=2,
        text=dict(hidden_size=256, intermediate_size=192, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-6),
        rope=(1e6, [16, 24, 24]),
        vision=dict(depth=2, hidden_size=160, intermediate_size=108, num_heads=2, patch_size=14, spatial_merge_size=2, temporal_patch_size=2, window_size=112, fullatt_block_indexes=[1]),
        rows=[(say(IMAGE, 'where is it?'), [(252, 140)]), (say('and here', IMAGE, words('here', 20)), [(100, 70)])],
    ),
]


def build(case, seed):
    vision = case['vision']
    width = case['text']['hidden_size']
    config = Qwen2_5_VLConfig(
        text_config=dict(
            **case['text'], vocab_size=case['vocab'], max_position_embeddings=2048, bos_token_id=ids['<|endoftext|>'], eos_token_id=ids['<|im_end|>'],
            rope_parameters={'rope_type': 'default', 'rope_theta': case['rope'][0], 'mrope_section': case['rope'][1]},
        ),
        vision_config=dict(**vision, out_hidden_size=width),
        image_token_id=ids['<|image_pad|>'], video_token_id=ids['<|video_pad|>'],
        vision_start_token_id=ids['<|vision_start|>'], vision_end_token_id=ids['<|vision_end|>'], tie_word_embeddings=case['tied'],
    )
    config._attn_implementation = 'eager'
    model = Qwen2_5_VLForConditionalGeneration(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights(published(name), tuple(parameter.shape), seed, case['embedding'], case.get('patch', 1))))
    size = vision['patch_size'] * vision['spatial_merge_size']
    processor = Qwen2VLImageProcessor(
        patch_size=vision['patch_size'], merge_size=vision['spatial_merge_size'], temporal_patch_size=vision['temporal_patch_size'],
        min_pixels=size * size, max_pixels=28 * 28 * 1280)
    return model, processor


def encode(case, processor, messages, sizes):
    """Prompt text, its tokens with expanded placeholders, and pixels."""
    text = fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pixels = dict(processor(images=[Image.fromarray(picture(w, h)) for w, h in sizes], return_tensors='pt')) if sizes else {}
    expanded = text
    for grid in pixels.get('image_grid_thw', []):
        expanded = expanded.replace('<|image_pad|>', '<|hole|>' * (int(grid.prod()) // case['vision']['spatial_merge_size'] ** 2), 1)
    tokens = fast(expanded.replace('<|hole|>', '<|image_pad|>'), add_special_tokens=False)['input_ids']
    return text, tokens, pixels


def collate(model, rows):
    """Right-padded inputs of several (tokens, pixels)."""
    longest = max(len(tokens) for tokens, _ in rows)
    tokens = torch.tensor([t + [ids['<|endoftext|>']] * (longest - len(t)) for t, _ in rows])
    mask = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t, _ in rows])
    inputs = dict(input_ids=tokens, attention_mask=mask, mm_token_type_ids=(tokens == ids['<|image_pad|>']).int())
    seen = [p for _, p in rows if p]
    if seen:
        inputs.update({k: torch.cat([p[k] for p in seen]) for k in ['pixel_values', 'image_grid_thw']})
        inputs['position_ids'], _ = model.model.get_rope_index(
            tokens, mm_token_type_ids=inputs['mm_token_type_ids'], image_grid_thw=inputs['image_grid_thw'], attention_mask=mask)
    else:
        inputs['position_ids'] = torch.arange(longest).expand(3, len(rows), -1)
    return inputs


def relative(a, b):
    """‖a − b‖ / ‖b‖ over the stored pieces of two tensors."""
    difference = sum(float(((a[k].double() - b[k].double()) ** 2).sum()) for k in b)
    return (difference / sum(float((b[k].double() ** 2).sum()) for k in b)) ** 0.5


forbidden = [i for t, i in ids.items() if t != '<|im_end|>']


def continuation(model, case, row):
    """64 greedy tokens of one prompt, their log-probabilities, and the smallest lead of the first choice over the second."""
    banned = forbidden + list(range(len(fast), case['vocab']))
    inputs = {k: v for k, v in collate(model, [row]).items() if k != 'position_ids'}
    done = model.generate(
        **inputs, max_new_tokens=GREEDY, do_sample=False, suppress_tokens=banned, eos_token_id=ids['<|im_end|>'], pad_token_id=ids['<|endoftext|>'],
        return_dict_in_generate=True, output_logits=True)
    tokens = done.sequences[0, inputs['input_ids'].shape[1]:]
    logits = torch.stack(done.logits)[:, 0].clone()  # [64, V]
    logits[:, banned] = -1e9
    two = logits.topk(2).values
    log_probs = torch.log_softmax(logits, -1).gather(1, tokens[:, None])[:, 0]
    return tokens.tolist(), log_probs, float((two[:, 0] - two[:, 1]).min())


def usable(greedy):
    """Long enough, not one word for ever, and no choice that rounding could turn."""
    return all(len(t) == GREEDY and len(set(t)) >= 10 and gap >= 2e-3 for t, _, gap in greedy)


# ---- all of it -----------------------------------------------------------------------------------------------------
policies = []
for case in CASES:
    for attempt in range(200):
        seed = f'{attempt}/{case["name"]}'
        model, processor = build(case, seed)
        encoded = [encode(case, processor, *row) for row in case['rows']]
        rows = [(tokens, pixels) for _, tokens, pixels in encoded]
        with torch.no_grad():
            greedy = [continuation(model, case, row) for row in rows]
        if usable(greedy):
            break
    else:
        raise SystemExit(f'{case["name"]}: no usable seed')
    at = f'{len(policies)}/'
    inputs = collate(model, rows)
    run = Run(model, inputs)
    losses = run.log_probs()
    loss = weighted(losses)
    grads = gradients(model, loss)
    seen = [p for _, p in rows if p]
    with torch.no_grad():
        for i, (_, p) in enumerate(rows):
            if p:
                store(f'{at}pixels.{i}', p['pixel_values'])
        for i, state in enumerate(run.vision()):
            store(f'{at}vision.{i}', state)
        for i, state in enumerate(run.states()):
            store(f'{at}layer.{i}', state)
        store(f'{at}logits', run.logits[run.keep])
        store(f'{at}logProbs', losses)
        # Padding changes nothing: each row alone gives what it gives in the batch.
        alone = torch.cat([model.model(**collate(model, [row]), use_cache=False).last_hidden_state[0] for row in rows])
        padding = float((alone - run.hidden[run.keep]).abs().max() / alone.abs().max())
    for name, gradient in grads.items():
        store(f'{at}gradient.{name}', gradient, 'gradient')
    for i, (_, log_probs, _) in enumerate(greedy):
        store(f'{at}greedy.{i}', log_probs)
    policy = {
        'name': case['name'], 'seed': seed, 'embedding': case['embedding'], 'patch': case.get('patch', 1), 'config': model.config.to_dict(),
        'preprocessor': processor.to_dict(),
        'rows': [
            {'messages': messages, 'sizes': sizes, 'text': text, 'ids': tokens,
             'positions': inputs['position_ids'][:, i, : len(tokens)].tolist(),
             'grids': p['image_grid_thw'].tolist() if p else [], 'greedy': greedy[i][0], 'lead': greedy[i][2]}
            for i, ((messages, sizes), (text, tokens, p)) in enumerate(zip(case['rows'], encoded))
        ],
        'loss': loss.item(), 'padding': padding,
    }

    if 'group' in case:
        # Responses behind their prompts, every sequence run whole: masked, tempered log-probabilities of the responses.
        responses, scores = [], []
        mask = torch.zeros(case['vocab'])
        mask[forbidden + list(range(len(fast), case['vocab']))] = -1e9
        for p, (tokens, pixels) in enumerate(rows):
            for g in range(case['group']):
                u = (uniform(f'{seed}/response/{p}/{g}', 3 + (5 * p + 7 * g) % 11).astype(np.float64) + 1) / 2
                response = [int(33 + 220 * v) for v in u] + [ids['<|im_end|>']]
                whole = collate(model, [(tokens + response, pixels)])
                logits = model(**whole, use_cache=False).logits[0, len(tokens) - 1 : -1].float()
                scores.append(torch.log_softmax((logits + mask) / TEMPERATURE, -1).gather(1, torch.tensor(response)[:, None])[:, 0])
                responses.append(response)
        joined = torch.cat(scores)
        for name, gradient in gradients(model, weighted(joined)).items():
            store(f'{at}group.gradient.{name}', gradient, 'gradient')
        store(f'{at}group.logProbs', joined)
        policy['group'] = {'samples': case['group'], 'temperature': TEMPERATURE, 'responses': responses}

    if case.get('bf16'):
        # The reference's own error of 16 bits. Only parameters are narrowed: from_pretrained keeps the rotary buffers.
        exact = {k: v for k, v in arrays.items() if k.startswith(at)}
        pick = lambda name: {k: v for k, v in exact.items() if k.split('#')[0] == at + name}
        for parameter in model.parameters():
            parameter.data = parameter.data.bfloat16()
        narrow = Run(model, inputs)
        narrow_losses = narrow.log_probs()
        narrow_grads = gradients(model, weighted(narrow_losses))
        with torch.no_grad():
            error = {f'vision.{i}': x for i, x in enumerate(narrow.vision())}
            error.update({f'layer.{i}': x for i, x in enumerate(narrow.states())})
            error.update({'logits': narrow.logits[narrow.keep], 'logProbs': narrow_losses})
            policy['bfloat16'] = {
                'states': {k: relative(sketch(at + k, x.float()), pick(k)) for k, x in error.items()},
                'gradients': {k: relative(sketch(f'{at}gradient.{k}', x.float(), 'gradient'), pick(f'gradient.{k}')) for k, x in narrow_grads.items()},
            }
    policies.append(policy)
    print(case['name'], seed, [len(t) for t, _ in rows], 'lead', min(g for _, _, g in greedy), 'padding', padding, 'loss', loss.item(), flush=True)

expected = {
    'made_with': {'python': platform.python_version(), 'torch': torch.__version__, 'transformers': transformers.__version__, 'tokenizers': tokenizers.__version__,
                  'numpy': np.__version__, 'torchvision': torchvision.__version__, 'pillow': PIL.__version__},
    'policies': policies,
}
json.dump(expected, open(f'{out}/parity.json', 'w'), ensure_ascii=False, separators=(',', ':'))
save_file({k: v.contiguous() for k, v in arrays.items()}, f'{out}/parity.safetensors')
