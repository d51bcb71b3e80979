import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CheckpointError } from '../../src/ground/errors.ts';
import { Chat, expandImages, type Message } from '../../src/policy/chat.ts';
import { GOLDEN, golden } from './golden.ts';

/** What test/golden/make_text.py stores. */
const { talks } = JSON.parse(readFileSync(new URL('../golden/text/text.json', import.meta.url), 'utf8')) as {
  talks: { messages: Message[]; generation: string }[];
};

describe('chat', () => {
  it.each(golden.cases)(
    "renders the checkpoint's template as the reference does: $name",
    ({ messages, text }) => {
      expect(Chat.load(GOLDEN).render(messages)).toBe(text);
    },
  );

  it('has a default template without a system message', () => {
    const content = [{ type: 'image' as const }, { type: 'text' as const, text: 'what?' }];
    expect(new Chat().render([{ role: 'user', content }])).toBe(
      '<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>what?<|im_end|>\n<|im_start|>assistant\n',
    );
  });

  it('expands one placeholder per image, and says when their number differs', () => {
    expect(expandImages('a<|image_pad|>b<|image_pad|>', [2, 1])).toBe(
      'a<|image_pad|><|image_pad|>b<|image_pad|>',
    );
    expect(() => expandImages('a<|image_pad|>b', [])).toThrow(/1 image placeholders .* for 0 images/);
    expect(() => expandImages('ab', [4])).toThrow(CheckpointError);
  });

  it('refuses a template that does not parse', () => {
    expect(() => new Chat('{% for x %}')).toThrow(CheckpointError);
  });

  it.each([
    [
      "{{ raise_exception('roles must alternate') }}",
      /dir\/a\.jinja: .* does not take .*\(roles must alternate\)/,
    ],
    ["{{ messages[0]['role'].nothing.more }}", /dir\/a\.jinja: the chat template makes an empty prompt/],
    ['{% if false %}a{% endif %}\n', /dir\/a\.jinja: the chat template makes an empty prompt/],
    ['{{ messages[0].role }}', /dir\/a\.jinja: .* no place \(<\|image_pad\|>\) for images/],
  ])('names the file of a template that fails: %s', (source, message) => {
    const chat = new Chat(source, 'dir/a.jinja');
    const content = [{ type: 'text' as const, text: 'what?' }, { type: 'image' as const }];
    const render = () => chat.render([{ role: 'user', content }]);
    expect(render).toThrow(CheckpointError);
    expect(render).toThrow(message);
  });
});

describe("Qwen2.5-VL's chat template, against transformers", () => {
  const chat = Chat.load(GOLDEN);

  it.each(talks)('renders conversation %#', ({ messages, generation }) => {
    expect(chat.render(messages)).toBe(generation);
  });
});
