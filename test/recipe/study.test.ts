import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { loadRecipe, namesOf } from '../../src/recipe/config.ts';
import { loadStudy } from '../../src/recipe/study.ts';
import { temporary } from '../helpers/temporary.ts';

const directory = temporary('study');
const file = join(directory, 'mine.yaml');

const STUDY = `seeds: [3, 1]
base: plain
evaluation: {series: 50, temperatures: [0, 0.5]}
set: {rl.learningRate: 0.01, rl.steps: 30}
settings:
  few:
    recipe: quickstart
    set: {rl.steps: 20}
    start: {set: {sft.samples: 400}}
    evaluation: {series: 40}
  none:
    recipe: quickstart-short
arms:
  plain:
    set: {rl.advantage: grpo}
    settings:
      none: {set: {rl.steps: 5}}
  scratch:
    start: none
    set: {rl.steps: 0, sft.samples: 900}
  extra:
    set: {sft.samples: 300, rl.steps: 0}
    settings: {none: skip}
`;

const load = (text: string) => {
  writeFileSync(file, text);
  return loadStudy(file);
};
const cells = (text = STUDY) => load(text).cells('out');
const recipeOf = (path: string) => {
  const { recipe, set } = cells().find((cell) => cell.path === path)!;
  return loadRecipe(recipe, set);
};

describe('the cells of a study', () => {
  test('have the seeds outermost, then the settings, each with its start before its arms', () => {
    const one = ['few/start', 'few/plain', 'few/scratch', 'few/extra', 'none/plain', 'none/scratch'];
    expect(cells().map(({ path }) => path)).toEqual([
      ...one.map((path) => `${path}/seed-3`),
      ...one.map((path) => `${path}/seed-1`),
    ]);
  });

  test('begin with the start of their setting and seed, and train no supervised samples unless they say so', () => {
    const plain = recipeOf('few/plain/seed-1');
    expect(plain.policy.init).toBe(join('out', 'few/start/seed-1'));
    expect([plain.sft.samples, plain.rl.steps, plain.rl.advantage, plain.seed]).toEqual([0, 20, 'grpo', 1]);
    const extra = recipeOf('few/extra/seed-3');
    expect([extra.policy.init, extra.sft.samples]).toEqual([join('out', 'few/start/seed-3'), 300]);
  });

  test('begin with the policy of the recipe where they say so, or where there is no start', () => {
    const scratch = recipeOf('few/scratch/seed-1');
    expect(scratch.rl.learningRate).toBe(0.01);
    expect([scratch.policy.init, scratch.sft.samples, scratch.rl.steps]).toEqual(['nano', 900, 0]);
    const plain = recipeOf('none/plain/seed-1');
    expect([plain.policy.init, plain.sft.samples, plain.rl.steps]).toEqual(['nano', 160, 5]);
  });

  test('of a start have the recipe of the setting without its reinforcement', () => {
    const start = recipeOf('few/start/seed-3');
    expect([start.policy.init, start.sft.samples, start.rl.steps, start.seed]).toEqual(['nano', 400, 0, 3]);
  });

  test('are evaluated as the study says, and the setting after it', () => {
    const found = cells().map(({ setting, evaluation }) => `${setting} ${evaluation.series}`);
    expect([...new Set(found)]).toEqual(['few 40', 'none 50']);
    expect(cells()[0]!.evaluation).toEqual({
      ...{ split: 'test', series: 40, temperatures: [0, 0.5], samples: 4, seed: 42 },
      intervene: false,
    });
  });

  test('are of a recipe that lies beside the study file', () => {
    writeFileSync(join(directory, 'own.yaml'), 'rl: {steps: 7}\n');
    const [first] = cells(STUDY.replace('recipe: quickstart-short', 'recipe: ./own.yaml')).filter(
      ({ setting }) => setting === 'none',
    );
    expect(first!.recipe).toBe(join(directory, 'own.yaml'));
  });
});

describe('a setting that takes the policies of another', () => {
  const text = STUDY.replace(
    'arms:',
    '  longer:\n    recipe: quickstart\n    policies: few\n    set: {data.length: 560}\n    evaluation: {series: 7}\narms:',
  );

  test('has cells of its own with the runs, starts and recipes of the other', () => {
    const all = cells(text);
    const longer = all.filter(({ setting }) => setting === 'longer');
    expect(longer.slice(0, 4).map(({ path }) => path)).toEqual([
      ...['start', 'plain', 'scratch', 'extra'].map((arm) => `longer/${arm}/seed-3`),
    ]);
    for (const cell of longer) {
      const trained = all.find(({ path }) => path === cell.run)!;
      expect(trained.path).toBe(cell.path.replace('longer', 'few'));
      expect([trained.run, cell.recipe, cell.set, cell.start]).toEqual([
        trained.path,
        trained.recipe,
        trained.set,
        trained.start,
      ]);
      expect([cell.data.length, cell.evaluation.series]).toEqual([560, 7]);
      expect(trained.data.length).not.toBe(560);
    }
  });

  test.each([
    ['policies: few', 'policies: fee', 'no setting called fee; did you mean few?'],
    [
      'policies: few',
      'policies: longer',
      'got longer, expected an earlier setting that trains policies of its own',
    ],
    [
      '{data.length: 560}',
      '{data.length: 560, rl.steps: 2}',
      'settings.longer.set: rl.steps changes nothing',
    ],
    [
      'none: {set: {rl.steps: 5}}',
      'longer: {set: {rl.steps: 5}}',
      'settings.longer: changes nothing, since its policies are those of few',
    ],
    ['policies: few', 'policies: few\n    start: {}', 'settings.longer.start: its policies are those of few'],
  ])('%s → %s is refused', (from, to, complaint) => {
    expect(() => cells(text.replace(from, to))).toThrow(complaint);
  });
});

describe('a study file is refused', () => {
  const complaint = (from: string, to: string): string => {
    expect(STUDY).toContain(from);
    try {
      load(STUDY.replace(from, to));
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      return (error as Error).message.replaceAll(directory, '');
    }
    return 'none';
  };

  test.each([
    [
      'rl.advantage: grpo',
      'rl.advantag: grpo',
      '/mine.yaml:15: arms.plain.set: unknown key rl.advantag; did you mean rl.advantage?',
    ],
    [
      'rl.advantage: grpo',
      'rl.group: 1',
      '/mine.yaml:15: arms.plain.set: rl.group: got 1, expected a number ≥ 2',
    ],
    [
      'set: {sft.samples: 400}',
      'set: {sft.sample: 400}',
      '/mine.yaml:9: settings.few.start.set: unknown key sft.sample; did you mean sft.samples?',
    ],
    [
      'none: {set: {rl.steps: 5}}',
      'nonne: skip',
      '/mine.yaml:17: arms.plain.settings.nonne: no setting called nonne; did you mean none? (settings: few, none)',
    ],
    [
      'none: {set: {rl.steps: 5}}',
      'none: skip',
      '/mine.yaml:17: arms.plain: is the base and cannot be skipped in none',
    ],
    [
      'base: plain',
      'base: plane',
      '/mine.yaml:2: base: no arm called plane; did you mean plain? (arms: plain, scratch, extra)',
    ],
    [
      'recipe: quickstart-short',
      'recipe: quikstart',
      '/mine.yaml:12: settings.none.recipe: no recipe called quikstart; did you mean quickstart?',
    ],
    ['seeds: [3, 1]', 'seeds: [3, 3]', '/mine.yaml:1: seeds: got [3,3], expected different seeds'],
    ['seeds: [3, 1]', 'seeds: []', '/mine.yaml:1: seeds: got [], expected 1 entries'],
    ['series: 50', 'serie: 50', '/mine.yaml:3: evaluation.serie: unknown; leave it out'],
    [
      '{series: 40}',
      '{series: 0}',
      '/mine.yaml:10: settings.few.evaluation.series: got 0, expected a number ≥ 1',
    ],
    [
      'set: {rl.steps: 20}',
      'set: {seed: 20}',
      "/mine.yaml:8: settings.few.set: seed is what 'seeds' says; leave it out",
    ],
    [
      '  scratch:',
      '  start:',
      '/mine.yaml:18: arms.start: every setting with a start has this arm; give another name',
    ],
    [
      'rl.steps: 0, sft.samples: 900',
      'rl.steps: 0, sft.samples: 0',
      '/mine.yaml:18: arms.scratch: trains nothing in few: sft.samples and rl.steps are 0',
    ],
    [
      '  extra:',
      '  ../extra:',
      '/mine.yaml:21: arms.../extra: got ../extra, expected a letter, then letters',
    ],
    ['seeds: [3, 1]', 'seeds: [3, 1', 'not YAML'],
  ])('%s → %s', (from, to, wanted) => {
    expect(complaint(from, to)).toContain(wanted);
  });

  test('when there is none of that name', () => {
    expect(() => loadStudy('groundin')).toThrow(/no study called groundin.*a path to a .yaml file works too/);
    expect(() => loadStudy('./none.yaml')).toThrow(/no such study file/);
  });
});

test.each(namesOf('study'))('the study %s that comes with timeseer is whole', (name) => {
  const study = loadStudy(name);
  const paths = study.cells('out').map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  expect(study.file.title).toBeDefined();
});
