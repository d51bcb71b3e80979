"""Checks an export with ONNX's own checker, and in onnxruntime against what the policy itself computes.

    npx tsx test/golden/write_logits.ts POLICY                      (writes POLICY.logits.json; --create makes a policy first)
    npx timeseer export --onnx --policy POLICY --out EXPORTED       (with --dtype, as often as wanted)
    python test/golden/check_onnx.py POLICY.logits.json EXPORTED    (packages: onnx, onnxruntime, numpy)

Each prompt alone, then all in one batch, padded on the left, with all their pictures in one call: largest difference of
logits, and of a greedy continuation over the cache the tokens in which it departs. float32 must agree to 1e-4 and in every
token; float16 and 8-bit weights are reported.
"""

import base64
import glob
import json
import os
import sys

import numpy
import onnx

os.environ.setdefault('ORT_DISABLE_TELEMETRY', '1')  # read when it is loaded
import onnxruntime  # noqa: E402

expected_file, exported = sys.argv[1:3]
expected = json.load(open(expected_file))
config = json.load(open(os.path.join(exported, 'config.json')))
image_token = config['image_token_id']
text = config['text_config']
vision = config['vision_config']
vocabulary = expected['vocabulary']


def floats(packed):
    return numpy.frombuffer(base64.b64decode(packed), numpy.float32)


def pixels(row):
    """Patches [L, 3, frames, area] with both frames, flat."""
    if not row['patches']:
        return numpy.zeros((0, 3 * vision['temporal_patch_size'] * vision['patch_size'] ** 2), numpy.float32)
    frame = numpy.concatenate([floats(p) for p in row['patches']]).reshape(-1, 3, 1, vision['patch_size'] ** 2)
    return numpy.repeat(frame, vision['temporal_patch_size'], axis=2).reshape(len(frame), -1)


class Model:
    def __init__(self, suffix):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.embed, self.vision, self.decoder = (
            onnxruntime.InferenceSession(os.path.join(exported, 'onnx', name + suffix), options, ['CPUExecutionProvider'])
            for name in ('embed_tokens', 'vision_encoder', 'decoder_model_merged'))

    def prefill(self, rows):
        """Logits of the last token of each row, padded on the left; the cache and attention mask."""
        batch, length = len(rows), max(len(row['ids']) for row in rows)
        ids = numpy.full((batch, length), 0, numpy.int64)
        mask = numpy.zeros((batch, length), numpy.int64)
        positions = numpy.ones((3, batch, length), numpy.int64)
        for b, row in enumerate(rows):
            n = len(row['ids'])
            ids[b, length - n:] = row['ids']
            mask[b, length - n:] = 1
            positions[:, b, length - n:] = numpy.array(row['positions']).reshape(3, n)
        embeds = self.embed.run(None, {'input_ids': ids})[0]
        grids = [grid for row in rows for grid in row['grids']]
        if grids:
            given = {'pixel_values': numpy.concatenate([pixels(row) for row in rows]), 'image_grid_thw': numpy.array(grids, numpy.int64)}
            embeds[ids == image_token] = self.vision.run(None, given)[0]
        empty = numpy.zeros((batch, text['num_key_value_heads'], 0, text['hidden_size'] // text['num_attention_heads']), numpy.float32)
        past = {f'past_key_values.{i}.{part}': empty for i in range(text['num_hidden_layers']) for part in ('key', 'value')}
        return self.step(embeds, mask, positions, past)

    def step(self, embeds, mask, positions, past):
        names = [output.name for output in self.decoder.get_outputs()]
        out = dict(zip(names, self.decoder.run(None, {'inputs_embeds': embeds, 'attention_mask': mask, 'position_ids': positions, **past})))
        logits = out.pop('logits')
        return logits, {name.replace('present', 'past_key_values'): value for name, value in out.items()}, mask

    def greedy(self, rows, steps):
        logits, past, mask = self.prefill(rows)
        taken = []
        for step in range(steps):
            last = logits[:, -1].copy()
            last[:, expected['forbidden']] = -numpy.inf
            token = last.argmax(-1)
            taken.append(token)
            mask = numpy.concatenate([mask, numpy.ones((len(rows), 1), numpy.int64)], 1)
            positions = numpy.array([[row['next'] + step] for row in rows], numpy.int64)
            embeds = self.embed.run(None, {'input_ids': token[:, None].astype(numpy.int64)})[0]
            logits, past, _ = self.step(embeds, mask, numpy.stack([positions] * 3), past)
        return numpy.stack(taken, 1)


def departures(got, row):
    want = row['greedy']
    return sum(int(a != b) for a, b in zip(got, want))


failed = False
rows = expected['rows']
for file in sorted(glob.glob(os.path.join(exported, 'onnx', '*.onnx'))):
    onnx.checker.check_model(file, full_check=True)
for suffix in ('.onnx', '_fp16.onnx', '_int8.onnx'):
    if not os.path.exists(os.path.join(exported, 'onnx', 'embed_tokens' + suffix)):
        continue
    model = Model(suffix)
    worst, departed, total = 0.0, 0, 0
    steps = max(len(row['greedy']) for row in rows)
    together, _, _ = model.prefill(rows)
    for b, row in enumerate(rows):
        want = floats(row['logits']).reshape(-1, vocabulary)
        alone, _, _ = model.prefill([row])
        for got in (alone[0, -len(want):], together[b, -len(want):]):
            worst = max(worst, float(numpy.abs(got - want).max()))
        departed += departures(model.greedy([row], steps)[0], row)
    for got, row in zip(model.greedy(rows, steps), rows):
        departed += departures(got, row)
        total += 2 * len(row['greedy'])
    print(f'{suffix}: logits differ by at most {worst:.2e}; {departed} of {total} greedy tokens differ')
    failed |= suffix == '.onnx' and (worst > 1e-4 or departed > 0)
print(f'onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}')
sys.exit(failed)
