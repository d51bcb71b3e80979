"""Makes test/golden/processor: what transformers' image processors and processor make of pictures and prompts.

    python test/golden/make_processor.py          (torch 2.15, torchvision 0.29, transformers 5.23, Pillow 13, x86 with AVX2)

Reads the tokenizer, template and settings of test/golden/qwen. The pictures come from the formulas in `picture` and `edges`,
which the tests repeat; where the reference's bytes are exact, only their CRC-32 is kept. The files in processor/ are
pictures in the formats that people have, with the CRC-32 of what `convert_to_rgb` makes of them.
"""

import json
import os
import struct
import zlib
from zlib import crc32

import numpy as np
import PIL
import torch
import torchvision
import transformers
from PIL import Image, ImageCms, ImageOps, PngImagePlugin
from torchvision.transforms.v2 import functional as tvF
from transformers import AutoImageProcessor, AutoProcessor, Qwen2_5_VLForConditionalGeneration
from transformers.image_transforms import convert_to_rgb
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

here = os.path.dirname(os.path.abspath(__file__))
out = f'{here}/processor'
os.makedirs(out, exist_ok=True)
torch.set_num_threads(1)


def grid(width, height):
    return np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing='ij')


def picture(width, height):
    y, x, c = grid(width, height)
    return ((x * 7 + y * 13 + c * 29 + (x * y) // 3) % 256).astype(np.uint8)


def edges(width, height):
    y, x, c = grid(width, height)
    return ((x // 5 + y // 3 + (x * y) // 17 + c) % 2 * 255).astype(np.uint8)


def digits(tensor, n=7):
    return [float(f'%.{n}g' % v) for v in tensor.detach().double().flatten().tolist()]


# ---- resizing: sharp edges, up and down, both orders of passes, one axis alone, a single pixel, long and thin ----------
resized = []
for (w, h), (a, b) in [
    ((40, 30), (28, 56)), ((30, 20), (84, 56)), ((70, 91), (28, 56)), ((60, 500), (56, 84)), ((500, 60), (84, 56)), ((33, 47), (308, 196)),
    ((300, 28), (308, 28)), ((28, 131), (28, 140)), ((9, 700), (28, 700)), ((1, 1), (56, 28)), ((613, 404), (588, 392)), ((5, 900), (28, 868)),
]:
    for name, make in [('picture', picture), ('edges', edges)]:
        im = make(w, h)
        pillow = np.asarray(Image.fromarray(im).resize((a, b), Image.Resampling.BICUBIC))
        vision = tvF.resize(torch.from_numpy(im).permute(2, 0, 1).contiguous(), [b, a], interpolation=tvF.InterpolationMode.BICUBIC, antialias=True)
        vision = vision.permute(1, 2, 0).contiguous().numpy()
        resized.append({'pattern': name, 'from': [w, h], 'to': [a, b], 'pillow': crc32(pillow.tobytes()), 'torchvision': crc32(vision.tobytes())})

# ---- pixel values of several pictures in one call, each its own size ---------------------------------------------------
sizes = [(300, 90), (50, 20), (84, 56), (61, 240)]
default = AutoImageProcessor.from_pretrained(f'{here}/qwen')
pil = Qwen2VLImageProcessorPil.from_pretrained(f'{here}/qwen')
assert type(default).__name__ == 'Qwen2VLImageProcessor'


def values(processor, **settings):
    done = processor(images=[Image.fromarray(edges(w, h)) for w, h in sizes], return_tensors='pt', **settings)
    flat = done['pixel_values'].float()
    return {'grids': done['image_grid_thw'].tolist(), 'every499': digits(flat.flatten()[::499]), 'mean': flat.double().mean().item()}


processed = [
    {'settings': {}, **values(default)},
    {'settings': {'image_processor_type': 'Qwen2VLImageProcessorPil'}, **values(pil)},
    {'settings': {'do_normalize': False}, **values(default, do_normalize=False)},
    {'settings': {'do_rescale': False}, **values(default, do_rescale=False)},
    {'settings': {'size': {'shortest_edge': 20 * 784, 'longest_edge': 30 * 784}}, **values(default, size={'shortest_edge': 20 * 784, 'longest_edge': 30 * 784})},
]

# ---- prompts: from messages and pictures to ids -------------------------------------------------------------------------
processor = AutoProcessor.from_pretrained(f'{here}/qwen')
prompts = []
for messages in [
    [{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': "it's a series, 漢字"}]}],
    [{'role': 'system', 'content': [{'type': 'text', 'text': 'Answer in one word.'}]},
     {'role': 'user', 'content': [{'type': 'image'}, {'type': 'image'}, {'type': 'text', 'text': 'which is\n\nlonger?'}, {'type': 'image'}, {'type': 'image'}]}],
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'first '}, {'type': 'image'}, {'type': 'text', 'text': ' then '}, {'type': 'image'}]},
     {'role': 'assistant', 'content': [{'type': 'text', 'text': 'the first'}]},
     {'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'and now?'}]}],
]:
    count = sum(part['type'] == 'image' for message in messages for part in message['content'])
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    done = processor(text=[text], images=[Image.fromarray(picture(w, h)) for w, h in sizes[:count]])
    prompts.append({'messages': messages, 'sizes': sizes[:count], 'text': text, 'ids': done['input_ids'][0]})

# ---- files ---------------------------------------------------------------------------------------------------------------
w, h = 53, 37
rgb = Image.fromarray(picture(w, h))
alpha = Image.fromarray(np.where(edges(w, h)[..., 0] > 0, picture(w, h)[..., 1], 255).astype(np.uint8))
turned = Image.Exif()
turned[0x112] = 6
rgba = rgb.copy()
rgba.putalpha(alpha)
la = rgb.convert('L')
la.putalpha(alpha)
rgb.save(f'{out}/rgb.png')
rgba.save(f'{out}/rgba.png')
rgb.convert('L').save(f'{out}/grey.png')
la.save(f'{out}/grey-alpha.png')
rgb.quantize(16).save(f'{out}/palette.png', transparency=3)
rgb.save(f'{out}/full.jpg', quality=90, subsampling=0)
rgb.save(f'{out}/turned.jpg', quality=75, exif=turned)
rgb.convert('L').save(f'{out}/grey.jpg')
rgb.save(f'{out}/lossy.webp', quality=80)
rgba.save(f'{out}/alpha.webp', lossless=True, exact=True)


def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', crc32(kind + data))


def write_png(name, depth, pixels, *before):
    """RGB as it is, behind chunks that Pillow does not write."""
    rows, columns = pixels.shape[:2]
    head = struct.pack('>IIBBBBB', columns, rows, depth, 2, 0, 0, 0)
    data = zlib.compress(b''.join(b'\0' + row.tobytes() for row in pixels), 9)
    with open(f'{out}/{name}', 'wb') as file:
        file.write(b'\x89PNG\r\n\x1a\n' + b''.join([chunk(b'IHDR', head), *before, chunk(b'IDAT', data), chunk(b'IEND', b'')]))


# Colour management, which Pillow leaves aside: gamma 1, primaries of another space, an ICC profile with red and green exchanged.
small = picture(19, 13)
write_png('gamma.png', 8, small, chunk(b'gAMA', struct.pack('>I', 100000)))
primaries = [31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000]
write_png('primaries.png', 8, small, chunk(b'gAMA', struct.pack('>I', 45455)), chunk(b'cHRM', struct.pack('>8I', *primaries)))
write_png('deep.png', 16, (small.astype('>u2') * 256 + small[::-1]).astype('>u2'))
profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile('sRGB')).tobytes())
profile[24:36] = bytes(12)  # the hour of its making
tags = {bytes(profile[at:at + 4]): at + 4 for at in range(132, 132 + 12 * struct.unpack('>I', profile[128:132])[0], 12)}
red, green = tags[b'rXYZ'], tags[b'gXYZ']
profile[red:red + 8], profile[green:green + 8] = profile[green:green + 8], profile[red:red + 8]
small = Image.fromarray(small)
small.save(f'{out}/profile.png', icc_profile=bytes(profile))
small.save(f'{out}/profile.jpg', quality=90, icc_profile=bytes(profile))
small.save(f'{out}/profile.webp', lossless=True, icc_profile=bytes(profile))
small.convert('CMYK').save(f'{out}/cmyk.jpg', quality=90)
small.quantize(16).save(f'{out}/palette-alpha.png', transparency=bytes(range(0, 256, 16)))
# Orientation, in each of the places where Pillow looks for it.
for orientation in range(2, 9):
    turned[0x112] = orientation
    small.save(f'{out}/turned-{orientation}.png', exif=turned)
small.save(f'{out}/turned.webp', lossless=True, exif=turned)
xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="6"/></x:xmpmeta>'
small.save(f'{out}/xmp.jpg', quality=90, xmp=xmp)
small.save(f'{out}/xmp.webp', lossless=True, xmp=xmp)
text = PngImagePlugin.PngInfo()
text.add_itxt('XML:com.adobe.xmp', xmp.decode(), zip=True)
small.save(f'{out}/xmp.png', pnginfo=text)
text = PngImagePlugin.PngInfo()
text.add_text('Raw profile type exif', f'\nexif\n{len(turned.tobytes()):8}\n{turned.tobytes().hex()}\n', zip=True)
small.save(f'{out}/raw-profile.png', pnginfo=text)
files = []
for name in sorted(os.listdir(out)):
    if name == 'expected.json':
        continue
    got = convert_to_rgb(ImageOps.exif_transpose(Image.open(f'{out}/{name}')), return_numpy=True)
    files.append({'name': name, 'width': got.shape[1], 'height': got.shape[0], 'crc': crc32(np.ascontiguousarray(got).tobytes()), 'mean': float(got.mean())})

# ---- answers: from files and words to greedy tokens, through everything at once ------------------------------------------
model = Qwen2_5_VLForConditionalGeneration.from_pretrained(f'{here}/qwen', attn_implementation='eager').eval()
special = {token: processor.tokenizer.convert_tokens_to_ids(token) for token in processor.tokenizer.get_added_vocab()}
banned = [i for token, i in special.items() if token != '<|im_end|>'] + list(range(len(processor.tokenizer), model.config.text_config.vocab_size))
answers = []
for names, prompt, system, penalty in [
    (['rgba.png'], 'what is it?', None, 1.0), (['full.jpg', 'lossy.webp', 'turned.jpg'], 'compare\n\nthem: 漢字', 'be brief', 1.0),
    (['grey.png'], 'trend', None, 1.3), ([], "it's", None, 1.3),
]:
    parts = [{'type': 'image'} for _ in names] + [{'type': 'text', 'text': prompt}]
    messages = ([{'role': 'system', 'content': system}] if system else []) + [{'role': 'user', 'content': parts}]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pictures = [ImageOps.exif_transpose(Image.open(f'{out}/{name}')) for name in names]
    inputs = processor(text=[text], images=pictures or None, return_tensors='pt')
    end = special['<|im_end|>']
    said = model.generate(**inputs, max_new_tokens=40, do_sample=False, repetition_penalty=penalty, suppress_tokens=banned, eos_token_id=end, pad_token_id=special['<|endoftext|>'])
    length = inputs['input_ids'].shape[1]
    answers.append({'files': names, 'prompt': prompt, 'system': system, 'penalty': penalty, 'length': length, 'ids': said[0, length:].tolist()})

versions = {'torch': torch.__version__, 'torchvision': torchvision.__version__, 'transformers': transformers.__version__, 'pillow': PIL.__version__}
json.dump({'made_with': versions, 'resized': resized, 'sizes': sizes, 'processed': processed, 'prompts': prompts, 'files': files, 'answers': answers},
          open(f'{out}/expected.json', 'w'), ensure_ascii=False, separators=(',', ':'))
