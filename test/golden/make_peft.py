"""Makes test/golden/peft: a LoRA adapter that PEFT writes for test/golden/qwen, and the logits it computes with it.

    python test/golden/make_peft.py                (torch 2.15, transformers 5.23, peft 0.21)
    python test/golden/make_peft.py check DIR      (DIR: an adapter that timeseer saved for test/golden/qwen)

`check` opens DIR with PEFT and compares its logits with DIR/logits.json, a list of those that timeseer computes for the
same tokens.
"""

import json
import os
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import Qwen2_5_VLForConditionalGeneration

here = os.path.dirname(os.path.abspath(__file__))
ids = torch.tensor([[40 + i * 13 % 200 for i in range(20)]])


def base():
    return Qwen2_5_VLForConditionalGeneration.from_pretrained(
        f'{here}/qwen', dtype=torch.float32, attn_implementation='eager'
    ).eval()


if sys.argv[1:2] == ['check']:
    model = PeftModel.from_pretrained(base(), sys.argv[2]).eval()
    with torch.no_grad():
        want = model(input_ids=ids).logits.flatten()
        plain = base()(input_ids=ids).logits.flatten()
    got = torch.tensor(json.load(open(f'{sys.argv[2]}/logits.json')))
    print(f'largest difference {(got - want).abs().max():.2e}, the adapter changes up to {(plain - want).abs().max():.2e}')
    sys.exit(0 if (got - want).abs().max() < 1e-4 else 1)

torch.manual_seed(3)
config = LoraConfig(
    r=3, lora_alpha=5, target_modules=['o_proj', 'q_proj', 'v_proj'], lora_dropout=0.1, task_type='CAUSAL_LM'
)
model = get_peft_model(base(), config)
for name, parameter in model.named_parameters():
    if 'lora_B' in name:
        torch.nn.init.normal_(parameter, std=0.3)
model.eval()
out = f'{here}/peft'
model.save_pretrained(out)
os.remove(f'{out}/README.md')
saved = json.load(open(f'{out}/adapter_config.json'))
saved['base_model_name_or_path'] = 'qwen'
saved['target_modules'] = sorted(saved['target_modules'])
json.dump(saved, open(f'{out}/adapter_config.json', 'w'), indent=2)
with torch.no_grad():
    logits = model(input_ids=ids).logits[0]
json.dump(
    {
        'ids': ids[0].tolist(),
        'last': [round(v, 6) for v in logits[-1].tolist()],
        'first': [round(v, 6) for v in logits[0, :20].tolist()],
    },
    open(f'{out}/expected.json', 'w'),
    separators=(',', ':'),
)
