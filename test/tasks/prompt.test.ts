import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BENCHMARK_PROMPTS, benchmarkNamed, benchmarkPrompt } from '../../datasets/benchmarks/registry.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES } from '../../src/ground/types.ts';
import { axesText, figure } from '../../src/plot/figure.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { parseClassification } from '../../src/tasks/classification.ts';
import type { PromptRequest, TaskPrompt } from '../../src/tasks/kind.ts';
import { numericText } from '../../src/tasks/numeric-text.ts';
import { customPrompt, promptText, promptVersion, teacherInstruction } from '../../src/tasks/prompt.ts';

const PROMPT_NAMES = BENCHMARK_PROMPTS.map(({ name }) => name);
const taskPrompt = (name: string): TaskPrompt => benchmarkPrompt(name)!;

/** Points and channels of each task as its benchmark has them. */
const SHAPES: Readonly<Record<string, readonly [length: number, channels: readonly string[]]>> = {
  rcw: [4000, ['sound']],
  tee: [319, ['power']],
  ecg: [1500, ['ECG']],
  emg: [1500, ['EMG']],
  ctu: [720, ['value']],
  har: [128, ['x', 'y', 'z']],
  anomllm: [1000, ['value']],
  nano5: [1000, ['value']],
  wild: [1000, ['value']],
  'wild-long': [5000, ['value']],
  vta: [400, ['value']],
  'vta/irregular': [400, ['value']],
  'vta/multivariate': [200, ['0', '1', '2', '3', '4', '5', '6', '7', '8']],
  'tsb-uad': [1200, ['value']],
  'tsb-ad': [1200, ['pressure', 'flow']],
  tab: [1200, ['a', 'b', 'c']],
  nab: [4032, ['value']],
  qa: [1040, ['ts1', 'ts2']],
};

function request(prompt: TaskPrompt): PromptRequest {
  const [length, channels] = SHAPES[prompt.name]!;
  const classes = prompt.kind === 'anomaly' ? ANOMALY_CLASSES : Object.keys(prompt.hints);
  const { figure: choice } = benchmarkNamed(prompt.name);
  const named = channels.length > 1 ? { channels } : {};
  const axes = axesText(figure(choice.preset, named), length);
  const asked = { text: 'Which of the two rises?', options: ['the first', 'the second', 'neither'] };
  return {
    ...{ length, channels, classes },
    ...(prompt.kind === 'variates' ? {} : { axes }),
    ...(prompt.kind === 'question' ? { question: asked } : {}),
  };
}

const golden = (name: string): string =>
  join(import.meta.dirname, '../golden', 'prompts', `${name.replace('/', '-')}.txt`);

describe('prompts of the tasks', () => {
  it('regression snapshot: are those on record; other words need a new version', async () => {
    expect(Object.keys(SHAPES).sort()).toEqual([...PROMPT_NAMES].sort());
    for (const name of PROMPT_NAMES) {
      const prompt = taskPrompt(name);
      await expect(
        `${promptVersion(prompt)}\n\n${promptText(prompt, request(prompt))}\n`,
      ).toMatchFileSnapshot(golden(name));
    }
  });

  it('regression snapshot: are on record with an extension, with numbers, and of a custom task', async () => {
    const tee = taskPrompt('tee');
    const har = taskPrompt('har');
    const channels = [0, 1, 2].map((c) => Float64Array.from({ length: 128 }, (_, i) => c + Math.sin(i / 9)));
    const numbers = numericText(channels, { names: ['x', 'y', 'z'], points: 16 });
    const own = customPrompt('classification', {
      description: 'Vibration of a pump, 100 Hz.',
      hints: { worn: 'a rough hum' },
    });
    const texts = [
      promptText(tee, { ...request(tee), extension: true }),
      promptText(har, { ...request(har), numbers }),
      promptText(own, { length: 50, channels: ['v'], classes: ['worn', 'new'] }),
    ];
    await expect(`${texts.join('\n\n=====\n\n')}\n`).toMatchFileSnapshot(golden('variants'));
  });

  it('name the length, every channel, every class with its hint, and the tags of the answer', () => {
    for (const name of PROMPT_NAMES) {
      const prompt = taskPrompt(name);
      const asked = request(prompt);
      const text = promptText(prompt, asked);
      expect(text).toContain(`${asked.length} points`);
      for (const [own, hint] of Object.entries(prompt.hints)) expect(text).toContain(`- ${own}: ${hint}\n`);
      if (prompt.kind !== 'variates' && asked.channels.length > 1)
        for (const channel of asked.channels) expect(text).toMatch(new RegExp(`\\b${channel}\\b`));
      expect(text.match(/<[a-z]+>/g)).toContain('<think>');
      expect(text.includes('<class>')).toBe(prompt.kind === 'anomaly' || prompt.kind === 'classification');
      expect(text.includes('<answer>')).toBe(prompt.kind !== 'classification');
      expect(text).not.toContain('<extension>');
      expect(text).not.toMatch(/undefined|NaN| {2}/);
    }
  });

  it('show examples that the reward reads as well formed', () => {
    const answer = /for example (<answer>.*?<\/answer>)/.exec(
      promptText(taskPrompt('nab'), request(taskPrompt('nab'))),
    )![1]!;
    expect(parseAnswer(`<think>t</think>${answer}<class>trend</class>`, 4032).wellFormed).toBe(true);
    const text = promptText(taskPrompt('emg'), { ...request(taskPrompt('emg')), extension: true });
    const tags = [...new Set(text.match(/<[a-z]+>/g))];
    const response = tags.map((tag) => `${tag}x${tag.replace('<', '</')}`).join('');
    expect(parseClassification(response, { extension: true }).wellFormed).toBe(true);
  });
});

describe('benchmarkPrompt', () => {
  it('finds the words of every benchmark and of its presets, and none for other data', () => {
    for (const preset of ['point', 'range', 'freq', 'noisy-trend'])
      expect(benchmarkPrompt(`anomllm/${preset}`)).toBe(benchmarkPrompt('anomllm'));
    expect(benchmarkPrompt('har', 'variates')).not.toBeNull();
    expect(benchmarkPrompt('vta/shapelet', 'anomaly')).toBe(benchmarkPrompt('vta'));
    expect(benchmarkPrompt('vta/square/9', 'variates')).toBe(benchmarkPrompt('vta/multivariate'));
    expect(benchmarkPrompt('custom')).toBeNull();
    expect(benchmarkPrompt('ctuu')).toBeNull();
  });
});

describe('promptText', () => {
  it('says of what numbers are means, and keeps indices those of the points', () => {
    const prompt = taskPrompt('nab');
    const reduced = promptText(prompt, { ...request(prompt), numbers: { text: '1, 2, 4', points: 3 } });
    expect(reduced).toContain('Each of the 3 values is the mean of about 1344 neighbouring points');
    expect(reduced.endsWith('\n\n1, 2, 4')).toBe(true);
    expect(reduced).not.toMatch(/plot|picture/);
    const whole = promptText(prompt, {
      ...request(prompt),
      length: 3,
      numbers: { text: '1, 2, 4', points: 3 },
    });
    expect(whole).not.toContain('mean of');
  });

  it('depends on the request alone', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.constantFrom(...PROMPT_NAMES), (length, name) => {
        const prompt = taskPrompt(name);
        const asked = { ...request(prompt), length };
        expect(promptText(prompt, asked)).toBe(promptText(prompt, structuredClone(asked)));
        expect(promptText(prompt, asked)).toContain(String(length));
      }),
    );
  });

  it('refuses what cannot be asked', () => {
    const prompt = taskPrompt('ctu');
    const asked = request(prompt);
    expect(() => promptText(prompt, { ...asked, classes: [] })).toThrow(/no classes to choose from/);
    expect(() => promptText(prompt, { ...asked, classes: ['a', '<b>'] })).toThrow(ConfigError);
    expect(() => promptText(prompt, { ...asked, length: 0 })).toThrow(/0 points/);
    expect(() => promptText(prompt, { ...asked, channels: [] })).toThrow(/no channels/);
    expect(() => promptText(taskPrompt('nab'), { ...request(taskPrompt('nab')), extension: true })).toThrow(
      /no extension/,
    );
    expect(() => customPrompt('anomaly', { description: 'see <answer>' })).toThrow(/holds a tag/);
  });

  it('leaves out a description that is not there', () => {
    const text = promptText(customPrompt('anomaly'), {
      length: 9,
      channels: ['v'],
      classes: ['trend', 'normal'],
    });
    expect(text).toMatch(
      /^The plot shows one time series of 9 points; the x axis is the index, 0 to 8\.\nFind/,
    );
    expect(text).toContain('- trend: stretches');
  });
});

describe('what a teacher is asked', () => {
  const trace = '<think>flat</think><answer>[]</answer><class>normal</class>';

  it('is the question, then the trace, then in the full style to answer anew', () => {
    expect(teacherInstruction('nano', 'Find the anomalies.', trace)).toBe(`Find the anomalies.\n${trace}`);
    const text = teacherInstruction('full', 'Where?\nSay it.', trace);
    expect(text.startsWith('Where?\nSay it.\n\n')).toBe(true);
    expect(text.split(trace)).toHaveLength(2);
    expect(text.slice(text.indexOf(trace) + trace.length)).toMatch(/^\n\nNow give your own answer/);
  });
});
