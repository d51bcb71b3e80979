import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ConfigError, closest } from '../../src/ground/errors.ts';
import { ADAPTER_TARGETS, DECODER_TARGETS } from '../../src/policy/lora-targets.ts';
import {
  changedKeys,
  changedRecipe,
  defaultRecipe,
  loadRecipe,
  namesOf,
  rewardOverride,
} from '../../src/recipe/config.ts';
import { recipeKeys, recipeSchema } from '../../src/recipe/recipe.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('config');

function recipe(text: string, overrides: readonly string[] = []): ReturnType<typeof loadRecipe> {
  const file = join(directory, 'r.yaml');
  writeFileSync(file, text);
  return loadRecipe(file, overrides);
}

/** The message of the ConfigError, without the directory. */
function complaint(text: string, overrides: readonly string[] = []): string {
  try {
    recipe(text, overrides);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message.replaceAll(`${directory}/`, '');
  }
  throw new Error('accepted');
}

describe('recipes that come along', () => {
  test.each(namesOf('recipe'))('%s is valid', (name) => {
    expect(loadRecipe(name).seed).toBe(42);
  });

  test('the quickstart writes out every key, with its default but for requirements, traces, the choice of a detector, small groups, Muon and how claims count', () => {
    const { requirements, data, ...rest } = loadRecipe('quickstart', [
      'rl.steps=360',
      'rl.group=8',
      'rl.optimizer=adamw',
      'rl.learningRate=2e-4',
      'rl.timerpo.similarity=ot',
      'rl.timerpo.credit=response',
      'rl.timerpo.corrections=0',
      'rl.timerpo.counterfactuals=0',
      'eval.validation=400',
    ]);
    const none = { requirements: { sft: {}, final: {}, gain: {}, notLower: [] } };
    expect({ ...rest, ...none, data: { ...data, traces: null } }).toEqual(defaultRecipe());
    expect(Object.keys({ ...requirements.final, ...requirements.gain })).toHaveLength(8);
    const text = readFileSync(join(import.meta.dirname, '../../src/recipes/quickstart.yaml'), 'utf8');
    const names = (tree: object): string[] =>
      Object.entries(tree).flatMap(([key, value]: [string, unknown]) =>
        typeof value === 'object' && value !== null && !Array.isArray(value) ? [key, ...names(value)] : [key],
      );
    expect(names(defaultRecipe()).filter((key) => !new RegExp(`(^|[{,]) *${key}:`, 'm').test(text))).toEqual(
      [],
    );
  });

  test('help has one line for every key: what it means, its default and what it may be', () => {
    const keys = recipeKeys();
    const leaves = (tree: object, prefix = ''): string[] =>
      Object.entries(tree).flatMap(([key, value]: [string, unknown]) =>
        typeof value === 'object' && value !== null && !Array.isArray(value)
          ? leaves(value, `${prefix}${key}.`)
          : [`${prefix}${key}`],
      );
    const names = keys.map(({ key }) => key);
    expect(leaves(defaultRecipe()).filter((key) => !names.includes(key))).toEqual([]);
    // A key without a description: add .describe('…') to it in src/recipe/recipe.ts.
    expect(keys.filter(({ meaning }) => !/^[A-Z].*[.)]$/.test(meaning)).map(({ key }) => key)).toEqual([]);
    const found = (key: string) => keys.find((one) => one.key === key);
    expect(found('rl.kl')).toMatchObject({ standard: '0', range: '≥ 0' });
    expect(found('rl.clipRatio')).toMatchObject({ standard: '0.2', range: '> 0 … < 1' });
    expect(found('sft.clip')).toMatchObject({ standard: '1', range: '> 0' });
    expect(found('rl.group')).toMatchObject({ standard: '8', range: '2 … 4096' });
    expect(found('input')).toMatchObject({ standard: 'picture', range: 'picture | numbers' });
    expect(found('memory.check')).toMatchObject({ standard: 'true', range: 'true | false' });
  });

  test('requirements go when other data are set without others', () => {
    const none = { sft: {}, final: {}, gain: {}, notLower: [] };
    expect(loadRecipe('quickstart', ['sft.samples=100']).requirements).not.toEqual(none);
    for (const from of ['quickstart', loadRecipe('quickstart')])
      expect(loadRecipe(from, ['data.name=anomllm']).requirements).toEqual(none);
    const own = ['data.name=anomllm', 'requirements.sft={point_f1: 0.5}'];
    expect(loadRecipe('quickstart', own).requirements).toEqual({ ...none, sft: { point_f1: 0.5 } });
  });

  test('how many series have a trace goes when other data are named, unless it is set too', () => {
    const own = ['data.name=anomllm', 'data.traces=7'];
    expect(loadRecipe('quickstart', ['data.traces=5', 'data.length=500']).data.traces).toBe(5);
    expect(loadRecipe('quickstart', ['data.name=anomllm']).data.traces).toBeNull();
    expect(loadRecipe('quickstart', own).data.traces).toBe(7);
  });

  test('the short quickstart takes the same path with far smaller counts', () => {
    const [short, full] = [loadRecipe('quickstart-short'), loadRecipe('quickstart')];
    expect(short.sft.samples).toBeGreaterThan(0);
    expect(short.rl.steps).toBeGreaterThan(0);
    expect(short.sft.samples * 20).toBeLessThan(full.sft.samples);
    expect(short.rl.advantage).toBe(full.rl.advantage);
    expect(short.eval.series).toBeLessThanOrEqual(32);
  });
});

test('no number of a recipe is taken that nothing could be done with', () => {
  const numbers = (tree: object, prefix = ''): string[] =>
    Object.entries(tree).flatMap(([key, value]: [string, unknown]) =>
      typeof value === 'number'
        ? [`${prefix}${key}`]
        : typeof value === 'object' && value !== null && !Array.isArray(value)
          ? numbers(value, `${prefix}${key}.`)
          : [],
    );
  const keys = numbers(defaultRecipe());
  expect(keys).toContain('rl.maxTokens');
  for (const key of keys) {
    for (const value of ['9007199254740992', '1e300', '.inf', '.nan', '-1']) {
      expect(complaint('', [`${key}=${value}`])).toMatch(new RegExp(`: ${key}: got .*, expected `));
    }
  }
});

test.each([
  ['a list', 'rl:\n  betas: &b [*b, 0.9]\n', 2],
  ['a mapping', 'seed: 1\nsft: &s\n  samples: *s\n', 3],
  ['everything', '&all\nseed: *all\n', 2],
])('%s that contains itself is named by its line', (_, text, line) => {
  const loops = 'not YAML: an alias (*) stands inside of its own anchor (&)';
  expect(complaint(text)).toBe(`r.yaml:${line}: ${loops}`);
  expect(complaint('', ['rl.betas=&b [*b, 0.9]'])).toContain(`the value is ${loops}`);
});

test.each([
  [
    'aliases that multiply',
    `a0: &a0 [x, x]\n${Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]\n`).join('')}`,
  ],
  ['nesting without an end', `seed: ${'['.repeat(30_000)}`],
])('%s are one short line', (_, text) => {
  expect(complaint(text)).toMatch(/^r\.yaml(?::\d+)?: not YAML: [^\n]{1,100}$/);
  expect(complaint('', [`seed=${text}`]).length).toBeLessThan(400);
});

describe('loadRecipe', () => {
  test('fills in defaults around what a file says', () => {
    const { rl, sft } = recipe('rl:\n  group: 5\n  timerpo: { epsilon: 0.1 }\n');
    expect(rl.group).toBe(5);
    expect(rl.timerpo).toMatchObject({ alpha: 0.3, epsilon: 0.1, iterations: 50, tau: 0.5 });
    expect(rl.prompts).toBe(16);
    expect(sft.learningRate).toBe(1.4e-3);
  });

  test('an empty file is the default recipe', () => {
    expect(recipe('')).toEqual(defaultRecipe());
    expect(recipe('# nothing\n')).toEqual(defaultRecipe());
  });

  test('an unknown key names file, line and the closest known key', () => {
    expect(complaint('seed: 1\nsft:\n  sample: 3\n')).toBe(
      'r.yaml:3: unknown key sft.sample; did you mean sft.samples?',
    );
    expect(complaint('seeed: 1\n')).toBe('r.yaml:1: unknown key seeed; did you mean seed?');
    expect(complaint('rl:\n  learning_rate: 1\n')).toContain('did you mean rl.learningRate?');
  });

  test('a key at the wrong level names where it belongs', () => {
    expect(complaint('rl:\n  alpha: 0\n')).toBe('r.yaml:2: unknown key rl.alpha; it is rl.timerpo.alpha now');
    expect(complaint('rl:\n  transport: { tau: 1 }\n')).toMatch(/its keys are in rl\.timerpo now/);
    expect(complaint('group: 5\n')).toBe('r.yaml:1: unknown key group; did you mean rl.group?');
  });

  test('a key like no other lists what is known', () => {
    expect(complaint('policy:\n  adapter:\n    zzzz: 1\n')).toBe(
      'r.yaml:3: unknown key policy.adapter.zzzz; known here: rank, alpha, rslora, targets',
    );
  });

  test.each([
    ['sft:\n  samples: 3.5\n', 'r.yaml:2: sft.samples: got 3.5, expected an integer'],
    ['sft:\n  samples: many\n', 'r.yaml:2: sft.samples: got "many", expected a number'],
    ['sft:\n  learningRate: .nan\n', 'r.yaml:2: sft.learningRate: got NaN, expected a number'],
    ['seed:\n', 'r.yaml:1: seed: got null, expected a number'],
    ['rl: 4\n', 'r.yaml:1: rl: got 4, expected an object'],
    ['rl:\n  topP: 0\n', 'r.yaml:2: rl.topP: got 0, expected a number > 0'],
    ['rl:\n  group: 1\n', 'r.yaml:2: rl.group: got 1, expected a number ≥ 2'],
    ['rl:\n  clipRatio: 1\n', 'r.yaml:2: rl.clipRatio: got 1, expected a number < 1'],
    [
      'rl:\n  advantage: ppo\n',
      'r.yaml:2: rl.advantage: got "ppo", expected one of timerpo, grpo, dr_grpo, rloo, reinforce_pp, gdpo, gigpo, hgpo, graphgpo, none, or a module, as in ./mine.ts#name',
    ],
    [
      'rl:\n  advantage: none\n',
      'r.yaml:2: rl.advantage: got "none", expected an estimator, or rl.distillation.weight above 0: otherwise the loss has no gradient',
    ],
    [
      'rl:\n  distillation:\n    divergence: jsd\n    estimator: sampled\n',
      'r.yaml:4: rl.distillation.estimator: got "sampled", expected full: sampled tokens estimate reverse_kl alone, not jsd',
    ],
    ['rl:\n  betas: [0.9]\n', 'r.yaml:2: rl.betas: got [0.9], expected 2 entries'],
    ['rl:\n  betas: [0.9, 2]\n', 'r.yaml:2: rl.betas.1: got 2, expected a number < 1'],
    ["figure: ''\n", 'r.yaml:1: figure: got "", expected a non-empty string'],
    ['rl:\n  miniBatches: 3\n', 'r.yaml:2: rl.miniBatches: got 3, expected a divisor of rl.prompts = 16'],
    [
      'memory:\n  zero: 3\nrl:\n  distillation: { weight: 1, teacher: current }\n',
      'r.yaml:2: memory.zero: got 3, expected 2 with rl.distillation.teacher: current, which reads all weights in an update',
    ],
    ['- 1\n', 'r.yaml: got [1], expected keys and values'],
  ])('%j is refused with key, line, got and expected', (text, message) => {
    expect(complaint(text)).toBe(message);
  });

  test('several faults are all named', () => {
    expect(complaint('sft:\n  samples: -1\n  batch: 0\n').split('\n')).toEqual([
      'r.yaml:2: sft.samples: got -1, expected a number ≥ 0',
      'r.yaml:3: sft.batch: got 0, expected a number ≥ 1',
    ]);
  });

  test('broken YAML and double keys name the line', () => {
    expect(complaint('seed: 1\nrl: [1\n')).toMatch(/^r\.yaml:\d: not YAML: /);
    expect(complaint('seed: 1\nseed: 2\n')).toMatch(/^r\.yaml:2: not YAML: Map keys must be unique/);
  });

  test.each([
    [
      'seed: 1\na: b: c\n',
      'r.yaml:2: not YAML: Nested mappings are not allowed in compact mappings (column 4)',
    ],
    [
      'seed: 1\n\nrl: *b\n',
      'r.yaml:3: not YAML: Unresolved alias (the anchor must be set before the alias): b',
    ],
  ])('%j is refused with its line, in one whole sentence', (text, message) => {
    expect(complaint(text)).toBe(message);
  });

  test('an unknown name suggests one and lists them, a missing path says so', () => {
    expect(() => loadRecipe('quickstrat')).toThrow(/no recipe called quickstrat; did you mean quickstart\?/);
    expect(() => loadRecipe('nope/x.yaml')).toThrow(/nope\/x\.yaml: no such recipe file/);
  });
});

describe('overrides', () => {
  test('set numbers, words and lists, the last one winning', () => {
    const set = [
      'sft.samples=1000',
      'rl.advantage=grpo',
      'rl.betas=[0.5, 0.6]',
      'rl.kl=1e-2',
      'sft.samples=2000',
    ];
    const { sft, rl } = recipe('sft:\n  samples: 5\n  batch: 4\n', set);
    expect([sft.samples, sft.batch, rl.advantage, rl.betas, rl.kl]).toEqual([
      2000,
      4,
      'grpo',
      [0.5, 0.6],
      0.01,
    ]);
  });

  test('name the projections of an adapter one by one or all at once', () => {
    const targets = (value: string): readonly string[] =>
      recipe('', [`policy.adapter.targets=${value}`]).policy.adapter.targets;
    expect(targets('[q_proj, visual.qkv]')).toEqual(['q_proj', 'visual.qkv']);
    expect(targets('all-linear')).toEqual(ADAPTER_TARGETS);
    expect(recipe('', []).policy.adapter.targets).toEqual(DECODER_TARGETS);
    expect(complaint('', ['policy.adapter.targets=[lm_head]'])).toContain('policy.adapter.targets');
    expect(complaint('', ['policy.adapter.targets=everything'])).toContain('got "everything"');
  });

  test('faults name the override and not a line of the file', () => {
    expect(complaint('sft:\n  samples: 5\n', ['sft.samples=x'])).toBe(
      '--set sft.samples=x: sft.samples: got "x", expected a number',
    );
    expect(complaint('', ['sft.sample=3'])).toBe(
      '--set sft.sample=3: unknown key sft.sample; did you mean sft.samples?',
    );
    expect(complaint('', ['seed'])).toContain('expected key=value');
    expect(complaint('', ['requirements.final.format=0.9'])).toContain(
      "requirements.final is set as a whole: 'requirements.final={format: 0.9}'",
    );
    expect(complaint('', ['rl.betas=[1'])).toMatch(/^--set rl\.betas=\[1: the value is not YAML/);
  });

  test('cannot reach beyond the recipe', () => {
    expect(complaint('', ['__proto__.polluted=1'])).toContain('unknown key __proto__');
    expect(complaint('', ['constructor.x=1'])).toContain('unknown key constructor');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test('do not change the file that they were applied to', () => {
    expect(recipe('seed: 3\n', ['seed=4']).seed).toBe(4);
    expect(recipe('seed: 3\n').seed).toBe(3);
    expect(defaultRecipe().seed).toBe(42);
  });
});

test('an own advantage estimator is placed beside the recipe and hashed with what it imports', () => {
  const file = join(directory, 'mine.ts');
  writeFileSync(join(directory, 'part.ts'), 'export const one = 1;\n');
  writeFileSync(file, "import { one } from './part.ts';\nexport const best = one;\n");
  const advantageOf = () => recipe('rl:\n  advantage: ./mine.ts#best\n').rl.advantage;
  const before = advantageOf();
  expect(before).toEqual({ use: `${file}#best`, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  writeFileSync(join(directory, 'part.ts'), 'export const one = 2;\n');
  const after = advantageOf();
  expect(
    changedKeys(
      { ...defaultRecipe(), rl: { ...defaultRecipe().rl, advantage: before } },
      {
        ...defaultRecipe(),
        rl: { ...defaultRecipe().rl, advantage: after },
      },
    ),
  ).toEqual(['rl.advantage.sha256']);
  expect(recipe('', [`rl.advantage=${file}`]).rl.advantage).toMatchObject({ use: file });
  expect(complaint('rl:\n  advantage: ./gone.ts\n')).toMatch(
    /^r\.yaml:2: rl\.advantage: gone\.ts: cannot be read/,
  );
});

describe('recipes of runs', () => {
  test('survive being written as JSON', () => {
    const original = recipe('seed: 7\n', ['rl.steps=3']);
    expect(recipeSchema.parse(JSON.parse(JSON.stringify(original)))).toEqual(original);
  });

  test('changedKeys names what differs, deep and in lists', () => {
    expect(changedKeys(defaultRecipe(), defaultRecipe())).toEqual([]);
    const changed = recipe('', ['rl.timerpo.tau=1', 'sft.betas=[0.9, 0.99]', 'seed=1']);
    expect(changedKeys(defaultRecipe(), changed).sort()).toEqual(['rl.timerpo.tau', 'seed', 'sft.betas']);
  });
});

describe('closest', () => {
  test('finds what a misspelt word means, whatever its case and separators', () => {
    expect(closest('min_learning_rate', ['learningRate', 'minLearningRate'])).toBe('minLearningRate');
    expect(closest('Setup', ['doctor', 'setup'])).toBe('setup');
    expect(closest('qxzv', ['doctor', 'setup'])).toBeUndefined();
    expect(closest('x', [])).toBeUndefined();
  });
});

test('a reward that cannot be loaded is told as the option that named it', () => {
  const wanted = (): unknown => changedRecipe(defaultRecipe(), [rewardOverride(['./none.js'])]);
  expect(wanted).toThrow(/^--reward: reward: .*none\.js: cannot be read as a module/);
});
