"""Makes test/golden/text: ids, decoded text and rendered conversations as transformers gives them.

    python test/golden/make_text.py test/golden/qwen test/golden/text        (versions: `made_with` in text.json)

The tokenizer is a Qwen2Tokenizer, the class that the published checkpoints name, with merges trained here on the
strings themselves. The strings are awkward on purpose: contractions in both cases, runs of white space of all kinds,
letters with combining marks, digits of other scripts, emoji in sequences, control characters, special tokens whole, cut
off and inside words; and random mixtures of such pieces. The template is the first argument's, Qwen2.5-VL's own.
"""

import json
import os
import random
import sys
import tempfile

import tokenizers
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AddedToken, AutoTokenizer, Qwen2Tokenizer

checkpoint, out = sys.argv[1:3]
os.makedirs(out, exist_ok=True)
random.seed(20263)

CORPUS = """
The series rises slowly, then it's flat; there's a spike at 140, and the period isn't 62 any more.
We've seen that they'll say it can't be an anomaly: I'd look at the trend, the season and the noise first.
<think>sine wave; period 62; discord at 140</think><answer>[[140, 220]]</answer><class>global point</class>
def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / len(values)\n
for (let i = 0; i < values.length; i++) {\n\tsum += values[i] ?? 0;\n}\r\n\r\n// end of the loop\r\n
Die Reihe steigt langsam, dann fällt sie plötzlich; größer als üblich, und später völlig gleichmäßig.
La série monte lentement puis s'arrête ; l'anomalie est très évidente à côté du début, n'est-ce pas ?
時系列に異常があります。周期は六十二です。時系列のトレンドは上昇です。
时间序列中有异常点，周期为六十二，趋势缓慢上升。时间序列是平稳的。
시계열에 이상이 있습니다. 시계열의 추세는 천천히 올라갑니다.
Временной ряд медленно растёт, затем внезапно падает; ряд имеет период шестьдесят два.
السلسلة الزمنية ترتفع ببطء ثم تنخفض فجأة. السلسلة لها دورة.
रेखा धीरे धीरे बढ़ती है और फिर अचानक गिरती है।
value: 3.14159, -0.5e-3, +42%, 1_000, $19.99, #ff8800, a@b.org, http://x.y/z?q=1&r=[2]
""".strip().split('\n')

SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|object_ref_start|>', '<|object_ref_end|>', '<|vision_start|>', '<|vision_end|>',
           '<|vision_pad|>', '<|image_pad|>', '<|video_pad|>']
PLAIN = ['<tool_call>', '</tool_call>']  # added, but not special

# ---- strings --------------------------------------------------------------------------------------------------------
STRINGS = [
    '', ' ', '  ', '\n', '\r\n', '\t', ' \n', '\n ', '\n\n\n', ' \n \n ', 'a\n', '\na', 'a \n b', 'a\r\n\r\nb', 'a\t\tb', '   a', 'a   ', 'a   b', ' . ', '...\n\nx', '!\r\n?',
    "it's", "IT'S", "It'S", "they'll they'LL THEY'RE we've I'M you'd can't", "'s", "''s", " 's", "o'clock", "'sa", "x'tx", "don’t", "'ſ", "'ſa", 'K', 'ſ', 'Kelvin', 'İ', 'ı', 'ß', 'ẞ', 'ŉ',
    '0123456789', '3.14159', '-1e-7', '1,000,000', '٣٤٥', 'Ⅷ', '²³', '½', '①', '१२३', '１２３', '二十', 'x1y2z3', '1a', 'a1', ' 1', '1 2  3',
    'é', 'e\u0301', 'a\u0308o\u0308u\u0308', '\u1e9b\u0323', '\uac00', '\u1100\u1161', '\u0344', '\u212b', 'ﬁ', '\u0301', ' \u0301x', 'q\u0307\u0323', 'नि', 'क्षि', 'ำ',
    '漢字', 'ひらがなカタカナ', '한국어', '时间序列', '。、「」', 'ｆｕｌｌ', '𠮷野家', '𝒳𝟘', '\U0001d7d9', 'русский', 'العربية', 'עברית', 'ไทย', 'ქართული',
    '😀', '👩‍👩‍👧‍👦', '👍🏽', '🇩🇪', '❤️', '☃', '∑∞≈', '→←', '…', '—', '“q”', '«q»', '№', '™', '€', '$',
    '\u00a0', 'a\u00a0b', '\u2003', '\u3000', 'a\u3000\u3000b', '\u200b', 'a\u200bb', '\u200d', '\ufeff', '\ufeffa', 'a\ufeff b', '\u0085', 'a\u0085b', 'a \u0085 b', '\u2028', 'a\u2028\u2028b', '\u1680', '\u180e', '\u202f',
    '\x00', 'a\x00b', '\x07', '\x0b', 'a\x0b\x0cb', '\x1b[31m', '\x1c\x1d\x1e\x1f', 'a\x1cb', '\x7f', '\u00ad', '\ue000', '\ufffd', '\U0010fffd',
    '<|im_start|>user\nhello<|im_end|>\n', '<|im_end|>', 'a<|im_end|>b', 'a <|im_end|> b', '  <|im_end|>  ', '<|im_end|', '|im_end|>', '<|IM_END|>', '<|im_end|><|im_end|>', '<|im_<|im_end|>end|>',
    '<|image_pad|><|image_pad|>', '<|vision_start|><|image_pad|><|vision_end|>what?', '<tool_call>\n{"a": 1}\n</tool_call>', 'x<tool_call>y', '<|endoftext|>\n\n', '<think>a</think>', '<|vision_pad|>',
    'def f(x):\n    return x**2  # square\n', 'if (a && b) { c?.[0] ??= `${d}`; }', 'a_b-c.d/e\\f', '"quoted" \'single\' `back`', '{"k":[1,2,{"z":null}]}', '<a href="x">y</a>', '----====____', '#' * 17, 'a' * 40, '.' * 30, ' ' * 33, '\n' * 9, '\t' * 5 + 'x',
    # White space or a sign? The classes of regular-expression engines differ.
    *[f'{c}{d}' for c in '\u0085\ufeff\u180e\x1c\x1f\u200b\u2028\u00a0\x0b\u2060' for d in ['.', '\n\nx', ' .', 'x.']], '.\ufeff', '.\u0085', '. \ufeff .',
] + CORPUS
PIECES = ['a', 'Z', 'the', 'ing', ' ', '  ', '\n', '\r\n', '\t', '\u00a0', '\u3000', "'", "'s", "'LL", '’', '.', ',,', '?!', '(', '#', '1', '23', '٣', '½', 'é', 'e\u0301', 'ß', 'ſ', '漢', '字', '한', '\u1100\u1161', 'я', 'ق', 'क्', '😀', '\u200d', '️',
          '\x00', '\x1f', '<|im_end|>', '<|im_', '<tool_call>', '\u2028', '\u0301', '—', '_', '$']
mixed = [''.join(random.choices(PIECES, k=random.randint(2, 14))) for _ in range(200)]

# ---- tokenizer ------------------------------------------------------------------------------------------------------
bpe = Tokenizer(models.BPE())
bpe.normalizer = normalizers.NFC()
# Learned without the split into words, so that there are merges across every boundary that the split may draw: a boundary
# in another place gives other ids.
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
lines = [part for line in STRINGS + mixed for part in line.split('<|im_end|>')] * 2
bpe.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, min_frequency=2, max_token_length=10, show_progress=False))
learned = json.loads(bpe.to_str())['model']
made = Qwen2Tokenizer(vocab=learned['vocab'], merges=[tuple(m) for m in learned['merges']], eos_token='<|im_end|>', pad_token='<|endoftext|>', model_max_length=131072)
made.add_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL] + [AddedToken(t, special=False, normalized=False) for t in PLAIN])
with tempfile.TemporaryDirectory() as saved:
    made.save_pretrained(saved)
    fast = AutoTokenizer.from_pretrained(saved)
    assert type(fast) is Qwen2Tokenizer
    for name in ['tokenizer.json', 'tokenizer_config.json']:
        json.dump(json.load(open(f'{saved}/{name}')), open(f'{out}/{name}', 'w'), ensure_ascii=False, separators=(',', ':'))


def row(text):
    ids = fast(text, add_special_tokens=False)['input_ids']
    return {'text': text, 'ids': ids, 'decoded': fast.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False),
            'plain': fast.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)}


# Ids that no text has: bytes cut out of characters, in any order.
cut = []
for _ in range(40):
    ids = [random.randrange(len(fast)) for _ in range(random.randint(1, 12))]
    cut.append({'ids': ids, 'plain': fast.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)})

# ---- conversations ----------------------------------------------------------------------------------------------------
template = open(f'{checkpoint}/chat_template.jinja').read()
image, text = {'type': 'image'}, lambda t: {'type': 'text', 'text': t}
TALKS = [
    [{'role': 'user', 'content': 'plain string'}],
    [{'role': 'system', 'content': 'You are brief.'}, {'role': 'user', 'content': [text('one'), image, text('two'), image, image, text('three')]}],
    [{'role': 'system', 'content': [text('parts '), text('of a system prompt')]}, {'role': 'user', 'content': [image]}, {'role': 'assistant', 'content': 'seen'}, {'role': 'user', 'content': [text('and this?'), image]}],
    [{'role': 'user', 'content': [text('a'), image]}, {'role': 'assistant', 'content': [text('first'), text(' second')]}, {'role': 'user', 'content': 'b'}, {'role': 'assistant', 'content': 'c'}],
    [{'role': 'user', 'content': [text('  spaces kept \n\n'), text('{{ braces }} {% raw %} <b>&amp;"\'</b>')]}],
    [{'role': 'system', 'content': ''}, {'role': 'user', 'content': ''}],
    [{'role': 'user', 'content': []}],
    [{'role': 'assistant', 'content': 'I begin'}, {'role': 'system', 'content': 'late system'}, {'role': 'user', 'content': '漢字 😀\tü'}],
]
talks = [{'messages': m, **{k: fast.apply_chat_template(m, chat_template=template, tokenize=False, add_generation_prompt=k == 'generation')
                            for k in ['generation', 'closed']}} for m in TALKS]

json.dump({'made_with': {'transformers': transformers.__version__, 'tokenizers': tokenizers.__version__}, 'size': len(fast),
           'strings': [row(s) for s in STRINGS + mixed], 'cut': cut, 'talks': talks},
          open(f'{out}/text.json', 'w'), ensure_ascii=True, separators=(',', ':'))
print(len(fast), len(STRINGS), [t['generation'] for t in talks][-2:])
