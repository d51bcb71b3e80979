"""Loads a directory that timeseer saved into transformers, strictly, and compares what both compute with it.

    npx tsx test/golden/write_logits.ts DIR --create       (or without --create, for a directory that is there)
    python test/golden/check_transformers.py DIR

Compared with what write_logits.ts wrote to DIR.logits.json: rendered prompts, token ids, pixels, logits, greedy text. Exits 1
when anything differs: a key missing or too many, other ids, logits farther than the tolerance (of the largest logit).

Results with torch 2.15.0, transformers 5.23.0 on a CPU (timeseer on libtorch 1.13), largest difference of a logit over the
largest logit, tokens of greedy text alike:
    --create                                              753600 parameters    1.2e-06    96 of 96
    --create --untied                                     805824 parameters    1.4e-06    96 of 96
    timeseer sft --set sft.samples=600, its sft/policy    749760 parameters    5.8e-07    96 of 96
    --create --bfloat16                                   753600 parameters    1.6e-02    96 of 96
In bfloat16 a logit near the largest is rounded by 2⁻⁹ of it at the last step alone, and both round all the way there, not alike.
"""

import base64
import json
import sys

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import AutoProcessor, GenerationConfig, Qwen2_5_VLForConditionalGeneration

directory = sys.argv[1]
written = json.load(open(f'{directory}.logits.json'))
torch.set_num_threads(1)
faults = []


def demand(ok, fault):
    if not ok:
        faults.append(fault)


def floats(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.float32).copy())


# ---- the directory as transformers reads it ------------------------------------------------------------------------
model, info = Qwen2_5_VLForConditionalGeneration.from_pretrained(
    directory, dtype=written['dtype'], attn_implementation='eager', output_loading_info=True)
model.eval()
for kind in ['missing_keys', 'unexpected_keys', 'mismatched_keys', 'error_msgs']:
    demand(not info[kind], f'{kind}: {info[kind]}')
processor = AutoProcessor.from_pretrained(directory)
stops = GenerationConfig.from_pretrained(directory).eos_token_id
demand(set(written['stops']) <= set(stops if isinstance(stops, list) else [stops]), f'generation_config.json stops at {stops}')

tolerance = {'float32': 1e-4, 'bfloat16': 3e-2}[written['dtype']]
worst = {'pixels': 0.0, 'logits': 0.0}
greedy = 0
for number, row in enumerate(written['rows']):
    pictures = [
        Image.fromarray(np.frombuffer(base64.b64decode(p['rgb']), np.uint8).reshape(p['height'], p['width'], 3)) for p in row['pictures']]
    text = processor.apply_chat_template(row['messages'], tokenize=False, add_generation_prompt=True)
    demand(text == row['text'], f'prompt {number}: rendered as {text!r}, timeseer has {row["text"]!r}')
    inputs = processor(text=[text], images=pictures or None, return_tensors='pt')
    ids = inputs['input_ids'][0].tolist()
    demand(ids == row['ids'], f'prompt {number}: ids {ids}, timeseer has {row["ids"]}')
    if pictures:
        demand(inputs['image_grid_thw'].tolist() == row['grids'], f'prompt {number}: grids {inputs["image_grid_thw"].tolist()}')
        vision = model.config.vision_config
        own = torch.cat([floats(p) for p in row['patches']]).reshape(-1, 3, 1, vision.patch_size**2)
        own = own.expand(-1, -1, vision.temporal_patch_size, -1).flatten(1)
        worst['pixels'] = max(worst['pixels'], float((own - inputs['pixel_values']).abs().max()))
    if faults:
        break
    with torch.no_grad():
        logits = model(**inputs).logits[0].float()
        own = floats(row['logits']).reshape(-1, written['vocabulary'])
        worst['logits'] = max(worst['logits'], float((own - logits[-len(own):]).abs().max() / logits.abs().max()))
        done = model.generate(**inputs, max_new_tokens=len(row['greedy']), do_sample=False, suppress_tokens=written['forbidden'], eos_token_id=written['stops'])
    same = [a == b for a, b in zip(done[0, len(ids):].tolist(), row['greedy'])]
    greedy += same.index(False) if False in same else len(same)
demand(worst['pixels'] < 1e-5, f'pixels differ by {worst["pixels"]:.1e}')
demand(worst['logits'] < tolerance, f'logits differ by {worst["logits"]:.1e} of the largest')
total = sum(len(row['greedy']) for row in written['rows'])
# In 16 bits near ties may be decided differently.
demand(greedy == total or written['dtype'] != 'float32', f'greedy text alike for {greedy} of {total} tokens')

parameters = sum(p.numel() for p in model.parameters())
print(f'transformers {transformers.__version__}, torch {torch.__version__}: {parameters} parameters, {written["dtype"]}, no missing or unexpected keys'
      if not faults else '\n'.join(faults))
print(f'pixels differ by at most {worst["pixels"]:.1e}, logits by {worst["logits"]:.1e} of the largest; greedy text alike for {greedy} of {total} tokens')
sys.exit(bool(faults))
