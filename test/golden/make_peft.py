"""Makes test/golden/peft and peft-all: LoRA adapters that PEFT writes for test/golden/qwen, and the logits it computes with
them. The second is rank-stabilised (rsLoRA) and stands beside every linear layer, those of the vision tower too.

    python test/golden/make_peft.py                (torch 2.15, transformers 5.23, peft 0.21)
    python test/golden/make_peft.py check DIR      (DIR: an adapter that timeseer saved for test/golden/qwen)

`check` opens DIR with PEFT and compares its logits with DIR/logits.json, a list of those that timeseer computes for the
same tokens, and, where there is one, with DIR/picture.json, of those behind a prompt with a picture.
"""

import json
import os
import sys

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

here = os.path.dirname(os.path.abspath(__file__))
ids = torch.tensor([[40 + i * 13 % 200 for i in range(20)]])


def base():
    return Qwen2_5_VLForConditionalGeneration.from_pretrained(
        f'{here}/qwen', dtype=torch.float32, attn_implementation='eager'
    ).eval()


def picture(width, height):
    """The formula of the tests."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing='ij')
    return Image.fromarray(((x * 7 + y * 13 + c * 29 + (x * y) // 3) % 256).astype(np.uint8))


def seen():
    """A prompt with a picture of 84 x 112 pixels."""
    processor = AutoProcessor.from_pretrained(f'{here}/qwen')
    messages = [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'which?'}]}]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text, processor(text=[text], images=[picture(84, 112)], return_tensors='pt')


if sys.argv[1:2] == ['check']:
    model, plain = PeftModel.from_pretrained(base(), sys.argv[2]).eval(), base()
    worst = 0
    for name, inputs in [('logits', {'input_ids': ids}), ('picture', seen()[1])]:
        if not os.path.exists(f'{sys.argv[2]}/{name}.json'):
            continue
        with torch.no_grad():
            want = model(**inputs).logits.flatten()
            change = (plain(**inputs).logits.flatten() - want).abs().max()
        difference = (torch.tensor(json.load(open(f'{sys.argv[2]}/{name}.json'))) - want).abs().max()
        worst = max(worst, difference)
        print(f'{name}: largest difference {difference:.2e}, the adapter changes up to {change:.2e}')
    sys.exit(0 if worst < 1e-4 else 1)


def make(name, config, **more):
    torch.manual_seed(3)
    model = get_peft_model(base(), config)
    for key, parameter in model.named_parameters():
        if 'lora_B' in key:
            torch.nn.init.normal_(parameter, std=0.3)
    model.eval()
    out = f'{here}/{name}'
    model.save_pretrained(out)
    os.remove(f'{out}/README.md')
    saved = json.load(open(f'{out}/adapter_config.json'))
    saved['base_model_name_or_path'] = 'qwen'
    saved['target_modules'] = sorted(saved['target_modules'])
    json.dump(saved, open(f'{out}/adapter_config.json', 'w'), indent=2)
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
        expected = {
            'ids': ids[0].tolist(),
            'last': [round(v, 6) for v in logits[-1].tolist()],
            'first': [round(v, 6) for v in logits[0, :20].tolist()],
        }
        if more.get('picture'):
            text, inputs = seen()
            expected['text'] = text
            expected['picture'] = [round(v, 6) for v in model(**inputs).logits[0, -1].tolist()]
    json.dump(expected, open(f'{out}/expected.json', 'w'), separators=(',', ':'))


make('peft', LoraConfig(r=3, lora_alpha=5, target_modules=['o_proj', 'q_proj', 'v_proj'], lora_dropout=0.1, task_type='CAUSAL_LM'))
make('peft-all', LoraConfig(r=2, lora_alpha=1, target_modules='all-linear', use_rslora=True, task_type='CAUSAL_LM'), picture=True)
