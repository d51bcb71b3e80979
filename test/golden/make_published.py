"""Makes test/golden/published.json: the tensors that transformers builds from config.json of the published sizes.

    npx tsx -e "import * as p from './test/policy/published.ts'; console.log(JSON.stringify(p))" |
        python test/golden/make_published.py test/golden/published.json        (torch 2.15, transformers 5.23)

Nothing is allocated. Numbers of layers and blocks stand as N; each such name has its shape and how many tensors bear it.
"""

import json
import re
import sys

import torch
import transformers
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

out = {'made_with': {'torch': torch.__version__, 'transformers': transformers.__version__}, 'sizes': {}}
for name, given in json.load(sys.stdin).items():
    config = Qwen2_5_VLConfig.from_dict(given)
    with torch.device('meta'):
        model = Qwen2_5_VLForConditionalGeneration(config)
    tensors = {}
    for key, tensor in model.named_parameters():  # a tied head is listed once
        key = key.replace('model.language_model.', 'model.').replace('model.visual.', 'visual.')
        entry = tensors.setdefault(re.sub(r'(layers|blocks)\.\d+\.', r'\1.N.', key), {'shape': list(tensor.shape), 'count': 0})
        assert entry['shape'] == list(tensor.shape)
        entry['count'] += 1
    text, vision = config.text_config, config.vision_config
    attention = model.model.language_model.layers[0].self_attn
    visual = model.model.visual
    out['sizes'][name] = {
        'tensors': tensors, 'parameters': sum(p.numel() for p in model.parameters()),
        # What the modules themselves hold, after the configuration's defaults.
        'facts': {
            'tied': bool(config.tie_word_embeddings), 'headDim': attention.head_dim, 'theta': text.rope_parameters['rope_theta'],
            'sections': model.model.language_model.rotary_emb.mrope_section, 'epsilon': model.model.language_model.norm.variance_epsilon,
            'maxPositions': text.max_position_embeddings, 'window': visual.window_size, 'fullAttention': list(visual.fullatt_block_indexes),
            'merge': visual.spatial_merge_size, 'patch': visual.patch_size, 'temporal': vision.temporal_patch_size,
            'visionHeadDim': visual.blocks[0].attn.head_dim, 'visionTheta': vision.rope_parameters['rope_theta'],
            'visionEpsilon': visual.merger.ln_q.variance_epsilon, 'image': config.image_token_id, 'video': config.video_token_id, 'end': text.eos_token_id,
        },
    }
json.dump(out, open(sys.argv[1], 'w'), separators=(',', ':'))
