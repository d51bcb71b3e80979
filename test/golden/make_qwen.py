"""Makes test/golden/qwen: a tiny random Qwen2.5-VL checkpoint and what transformers computes with it.

    python test/golden/make_qwen.py test/golden/qwen          (torch 2.15, transformers 5.23, tokenizers 0.23)
    python test/golden/make_qwen.py nano test/golden/nano     (ids of nano/encodings.json under nano/tokenizer.json)

Everything is asymmetric on purpose: grouped queries, unequal M-RoPE sections, windows cut at two edges, two
images of different, non-square size, non-zero biases, norms away from one, a vocabulary padded beyond the tokenizer.
Pictures come from the formula in `picture`, which the tests repeat.
"""

import json
import os
import shutil
import sys

import numpy as np
import torch
from PIL import Image
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

if sys.argv[1] == 'nano':
    trained = Tokenizer.from_file(f'{sys.argv[2]}/tokenizer.json')
    rows = json.load(open(f'{sys.argv[2]}/encodings.json'))
    for row in rows:
        row['ids'] = trained.encode(row['text'], add_special_tokens=False).ids
        assert trained.decode(row['ids'], skip_special_tokens=False) == row['text']
    json.dump(rows, open(f'{sys.argv[2]}/encodings.json', 'w'), ensure_ascii=False, separators=(',', ':'))
    sys.exit()

out = sys.argv[1]
shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
torch.manual_seed(20260)
torch.set_num_threads(1)

# ---- tokenizer: byte-level BPE with Qwen's own pre-tokenizer -----------------------------------------------
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|vision_start|>', '<|vision_end|>', '<|image_pad|>', '<|video_pad|>']
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
tokenizer = Tokenizer(models.BPE())
tokenizer.normalizer = normalizers.NFC()
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(QWEN), 'isolated'), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(vocab_size=281, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
tokenizer.train_from_iterator(['find the anomalies in this series', 'the trend of the series is seasonal', "it's an anomaly"] * 3, trainer)
tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIAL])
tokenizer.save(f'{out}/tokenizer.json')
ids = {t: tokenizer.token_to_id(t) for t in SPECIAL}
json.dump(
    {'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': '<|im_end|>', 'pad_token': '<|endoftext|>', 'model_max_length': 512},
    open(f'{out}/tokenizer_config.json', 'w'), indent=1,
)
TEMPLATE = (
    "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}"
    "{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
open(f'{out}/chat_template.jinja', 'w').write(TEMPLATE)

# ---- checkpoint ---------------------------------------------------------------------------------------------
config = Qwen2_5_VLConfig(
    text_config=dict(
        vocab_size=296, hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        rms_norm_eps=1e-6, max_position_embeddings=512, bos_token_id=ids['<|endoftext|>'], eos_token_id=ids['<|im_end|>'],
        rope_parameters={'rope_type': 'default', 'rope_theta': 10000.0, 'mrope_section': [1, 1, 2]},
    ),
    vision_config=dict(
        depth=3, hidden_size=24, intermediate_size=36, num_heads=2, out_hidden_size=32, patch_size=14, spatial_merge_size=2,
        temporal_patch_size=2, window_size=56, fullatt_block_indexes=[1],
    ),
    image_token_id=ids['<|image_pad|>'], video_token_id=ids['<|video_pad|>'],
    vision_start_token_id=ids['<|vision_start|>'], vision_end_token_id=ids['<|vision_end|>'], tie_word_embeddings=False,
)
model = Qwen2_5_VLForConditionalGeneration(config).float().eval()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if 'norm' in name or 'ln_q' in name:
            parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
        elif name.endswith('bias'):
            parameter.copy_(0.3 * torch.randn_like(parameter))
        else:
            parameter.copy_(torch.randn_like(parameter) * (1.2 / parameter[0].numel() ** 0.5 if parameter.dim() > 1 else 1))
        # Few mantissa bits: the file compresses well and the numbers survive any dtype.
        parameter.copy_(parameter.to(torch.bfloat16).float())
model.save_pretrained(out)
os.remove(f'{out}/generation_config.json')
processor = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 64)
processor.save_pretrained(out)


# ---- inputs -------------------------------------------------------------------------------------------------
def picture(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing='ij')
    return ((x * 7 + y * 13 + c * 29 + (x * y) // 3) % 256).astype(np.uint8)  # [height, width, 3]


def vision(sizes):
    if not sizes:
        return {}
    done = processor(images=[picture(w, h) for w, h in sizes], return_tensors='pt', do_resize=False)
    return {'pixel_values': done['pixel_values'], 'image_grid_thw': done['image_grid_thw']}


def digits(tensor, n=7):
    return [float(f'%.{n}g' % v) for v in tensor.detach().double().flatten().tolist()]


fast = AutoTokenizer.from_pretrained(out)
cases = []
for name, messages, sizes in [
    ('text only', [{'role': 'user', 'content': 'find the trend'}], []),
    ('one image', [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'series of 12'}]}], [(84, 56)]),
    ('two images', [{'role': 'system', 'content': 'be brief'}, {'role': 'user', 'content': [
        {'type': 'text', 'text': 'compare'}, {'type': 'image'}, {'type': 'text', 'text': ' and '}, {'type': 'image'}]}], [(140, 84), (84, 56)]),
]:
    text = fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pixels = vision(sizes)
    expanded = text
    for grid in pixels.get('image_grid_thw', []):
        expanded = expanded.replace('<|image_pad|>', '<|hole|>' * (int(grid.prod()) // 4), 1)
    expanded = expanded.replace('<|hole|>', '<|image_pad|>')
    tokens = torch.tensor([fast(expanded, add_special_tokens=False)['input_ids']])
    types = (tokens == ids['<|image_pad|>']).int()
    if sizes:
        positions, _ = model.model.get_rope_index(tokens, mm_token_type_ids=types, image_grid_thw=pixels['image_grid_thw'])
    else:
        positions = torch.arange(tokens.shape[1]).expand(3, 1, -1)
    inputs = dict(input_ids=tokens, mm_token_type_ids=types, attention_mask=torch.ones_like(tokens), **pixels)
    with torch.no_grad():
        result = model.model(**inputs)
        logits = model.lm_head(result.last_hidden_state)[0]
        features = torch.cat(model.model.get_image_features(pixels['pixel_values'], pixels['image_grid_thw']).pooler_output) if sizes else torch.zeros(0)
        banned = [v for k, v in ids.items() if k != '<|im_end|>'] + list(range(len(fast), 296))
        greedy = model.generate(**inputs, max_new_tokens=12, do_sample=False, suppress_tokens=banned, eos_token_id=ids['<|im_end|>'], pad_token_id=ids['<|endoftext|>'])
    # Gradient of the mean negative log-likelihood of tokens 1…T−1 given their past.
    model.zero_grad()
    scores = torch.log_softmax(model(**inputs).logits[0, :-1].float(), -1)
    loss = -scores.gather(1, tokens[0, 1:, None]).mean()
    loss.backward()
    gradients = {n: digits(p.grad.flatten()[:: max(1, p.numel() // 5)][:6], 6) + [float('%.6g' % p.grad.norm())]
                 for n, p in model.named_parameters() if p.grad is not None}
    cases.append({
        'name': name, 'messages': messages, 'sizes': sizes, 'text': text, 'ids': tokens[0].tolist(), 'positions': positions[:, 0].tolist(),
        'features': digits(features), 'hidden': digits(result.last_hidden_state[0]), 'lastLogits': digits(logits[-1]),
        'greedy': greedy[0, tokens.shape[1]:].tolist(), 'loss': loss.item(), 'gradients': gradients if sizes else {},
    })

pixels = vision([(84, 56)])['pixel_values']
# Sizes at which Pillow resamples rows first, as it always did before it began to choose the cheaper order.
resized = []
for (w, h), (a, b) in [((40, 30), (28, 56)), ((30, 20), (84, 56)), ((70, 91), (28, 56))]:
    small = Image.fromarray(picture(w, h)).resize((a, b), Image.Resampling.BICUBIC)
    resized.append({'from': [w, h], 'to': [a, b], 'every7': np.asarray(small).flatten()[::7].tolist()})
strings = ["it's the trend: 42 anomalies\n\n in  1000", 'Ünï¢ødé 漢字 <|im_start|>user\n', 'find <|image_pad|> 3.14', '', '   ', 'tabs\tand\r\nlines ']
expected = {
    'made_with': {'torch': torch.__version__, 'transformers': __import__('transformers').__version__},
    'special': ids, 'vocabulary': len(fast), 'cases': cases,
    'encodings': [{'text': s, 'ids': fast(s, add_special_tokens=False)['input_ids']} for s in strings],
    'pixels': {'size': [84, 56], 'shape': list(pixels.shape), 'every37': digits(pixels.flatten()[::37]), 'mean': pixels.double().mean().item(), 'row5': digits(pixels[5, 190:400])},
    'resized': resized,
    'smartResize': [{'width': w, 'height': h, 'min': a, 'max': b, 'to': list(smart_resize(h, w, 28, a, b))[::-1]}
                    for w, h, a, b in [(580, 230, 3136, 1003520), (1000, 150, 3136, 1003520), (20, 30, 3136, 1003520), (4000, 3000, 3136, 1003520), (560, 28, 784, 50000), (42, 70, 784, 1003520), (5000, 30, 3136, 200704)]],
}
json.dump(expected, open(f'{out}/expected.json', 'w'), separators=(',', ':'))
for case in cases:
    print(case['name'], case['ids'], case['greedy'], case['loss'])
