import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { addMaterials, MaterialPool } from '../../datasets/compose-materials.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { Materials } from '../../datasets/materials.ts';
import { prepare } from '../../datasets/prepare.ts';
import { learnClasses, readProfile } from '../../src/expcot/class-profile.ts';
import { render } from '../../src/plot/raster.ts';
import { drawingOf } from '../../src/tasks/drawing.ts';
import { goldParts, scoreBlind, teacherTrace } from '../../src/tasks/kinds.ts';
import { inside } from '../helpers/command-line.ts';
import { decodePng } from '../helpers/png.ts';
import { CLI } from '../helpers/program.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('materials');
afterEach(() => {
  process.exitCode = undefined;
});
let made = 0;
const freshPath = (): string => join(root, `m${made++}`);

async function prepared(task: string, ...more: string[]): Promise<string> {
  const out = freshPath();
  const { code, err } = await inside('data', 'prepare', task, '--out', out, '--json', ...more);
  expect(err).toBe('');
  expect(code).toBe(0);
  return out;
}

/** A table of two classes that differ in their period, one series a row. */
function table(rows: number, change: (label: string, n: number) => string = (label) => label): string {
  const folder = freshPath();
  mkdirSync(folder);
  const row = (n: number): string => {
    const label = n % 2 === 0 ? 'slow' : 'fast';
    const period = label === 'slow' ? 31 + (n % 3) : 9 + (n % 2);
    const values = Array.from({ length: 96 }, (_, i) =>
      Math.sin((2 * Math.PI * (i + n)) / period).toFixed(4),
    );
    return [change(label, n), ...values].join(',');
  };
  const head = ['class', ...Array.from({ length: 96 }, (_, i) => `t${i}`)].join(',');
  writeFileSync(
    join(folder, 't.csv'),
    `${[head, ...Array.from({ length: rows }, (_, n) => row(n))].join('\n')}\n`,
  );
  return join(folder, 't.csv');
}

/** Every file below a directory with the digest of its bytes. */
function digests(path: string): Record<string, string> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const pairs = files.map((entry): [string, string] => {
    const file = join(entry.parentPath, entry.name);
    return [relative(path, file), createHash('sha256').update(readFileSync(file)).digest('hex')];
  });
  return Object.fromEntries(pairs.sort());
}

async function expectWhole(path: string): Promise<void> {
  const { out, code } = await inside('data', 'validate', path, '--json', '--all');
  const verdict = JSON.parse(out);
  expect(verdict).toMatchObject({ broken: [], remarks: [] });
  expect(verdict.compared).toBe(verdict.rows);
  expect(code).toBe(0);
}

describe('prepare leaves figures, prompts and traces beside the examples', () => {
  it('of a univariate task: the picture as it is drawn, the teacher with the right answer', async () => {
    const path = await prepared('anomllm', '--count', 'train=9,validation=2,test=3');
    const set = new ExampleSet(path);
    const materials = Materials.of(set)!;
    for (const split of set.splits) {
      for (let index = 0; index < set.count(split); index++) {
        const example = set.at(split, index);
        const { id, image, prompt, gold, teacher, blind } = materials.at(split, index);
        expect(id).toBe(example.id);
        expect(gold).toBe(goldParts(example.gold));
        expect(prompt).toMatch(/The plot shows one time series of 1000 points/);
        const { figure, values, times } = drawingOf(example, set.manifest.figure);
        const picture = decodePng(readFileSync(join(path, image!)));
        const drawn = await render(figure, values, times);
        expect([picture.width, picture.height]).toEqual([drawn.width, drawn.height]);
        expect(Buffer.compare(picture.data, drawn.data)).toBe(0);
        expect(teacher).toBe(split === 'test' ? null : teacherTrace(example, null).text);
        expect(blind).toMatch(/^<think>.*<\/answer><class>[a-z ]+<\/class>$/s);
      }
    }
    const { splits, traces, classes } = materials.facts;
    expect([traces, classes]).toEqual([expect.any(Number), null]);
    expect(splits.test?.score).toEqual(scoreBlind(set.read('test'), null));
    expect(splits.train?.score?.count).toBe(9);
    await expectWhole(path);
  });

  it('of variates: the grid of small plots, and the numbers of the odd ones', async () => {
    const path = await prepared('vta/multivariate', '--count', 'train=4,test=2', '--split', 'train,test');
    const set = new ExampleSet(path);
    const materials = Materials.of(set)!;
    const [first] = materials.read('train');
    expect(first!.teacher!.endsWith(first!.gold)).toBe(true);
    expect(materials.facts.splits.train?.score).toMatchObject({
      count: 4,
      accuracy: null,
      f1: expect.any(Number),
    });
    await expectWhole(path);
  });

  it('of a classification: classes learned from the training split alone, and never scored on it', async () => {
    const path = await prepared('custom', '--from', table(54), '--shares', '4,1,1');
    const set = new ExampleSet(path);
    const materials = Materials.of(set)!;
    const { splits, classes } = materials.facts;
    const file = join(path, 'classes.json');
    const profile = readProfile(readFileSync(file, 'utf8'), file);
    expect(profile).toEqual(learnClasses(set.read('train')));
    expect(classes).toMatchObject({ bytes: statSync(file).size, heldOut: profile.rule.heldOutAccuracy });
    expect(splits.train?.score).toBeNull();
    expect(splits.test?.score).toEqual(scoreBlind(set.read('test'), profile));
    const [example] = set.read('validation');
    expect(materials.at('validation', 0).teacher).toBe(teacherTrace(example!, profile).text);
    expect([...materials.read('test')].map(({ teacher }) => teacher)).toEqual(
      Array.from({ length: set.count('test') }, () => null),
    );
    await expectWhole(path);
    const { out } = await inside('data', 'stats', path);
    expect(out).toMatch(
      /blind expert: train, in folds, class [\d.]+ %; validation class .* of 9; test class .* of 9\n/,
    );
  });

  it('says how often the blind expert is right, and carries it in the manifest', async () => {
    const out = freshPath();
    const said = await inside('data', 'prepare', 'vta', '--count', '5', '--split', 'test', '--out', out);
    expect(said.out).toMatch(/prompt vta@[\d.]+; 5 figures; expert traces: 0 with the right answer, 5 blind/);
    expect(said.out).toMatch(
      /blind expert: test class [\d.]+ % \(most frequent [\d.]+ %\), F1 [\d.]+ of 5\n/,
    );
    const { materials } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
    const stats = JSON.parse((await inside('data', 'stats', out, '--json')).out);
    expect(stats.blind).toEqual({ test: materials.splits.test.score });
  });

  it('leaves out what is not wanted', async () => {
    const path = await prepared('vta', '--count', '3', '--no-figures', '--no-traces');
    expect(existsSync(join(path, 'figures'))).toBe(false);
    const materials = Materials.of(new ExampleSet(path))!;
    expect(materials.facts).toMatchObject({
      traces: null,
      splits: { train: { figures: null, score: null } },
    });
    const [first] = materials.read('train');
    expect(first).toMatchObject({
      image: null,
      teacher: null,
      blind: null,
      prompt: expect.stringMatching(/./),
    });
    expect((await inside('data', 'stats', path)).out).toMatch(/blind expert: not scored/);
    const figures = await prepared('vta', '--count', '3', '--no-traces');
    expect(existsSync(join(figures, 'figures/test/000002.png'))).toBe(true);
    const traces = await prepared('vta', '--count', '3', '--no-figures');
    expect(
      [...Materials.of(new ExampleSet(traces))!.read('train')].every(({ teacher }) => teacher !== null),
    ).toBe(true);
  });

  it('says why a classification has no traces, and goes on without them', async () => {
    const path = await prepared('custom', '--from', table(12), '--shares', '0,0,1');
    expect(Materials.of(new ExampleSet(path))!.facts).toMatchObject({
      traces: null,
      classes: null,
      notes: ['no expert traces: there is no training split to learn classes from'],
    });
    const single = await prepared(
      'custom',
      '--from',
      table(12, () => 'same'),
      '--shares',
      '1,0,1',
    );
    expect(Materials.of(new ExampleSet(single))!.facts.notes[0]).toMatch(
      /classes cannot be learned: one class only/,
    );
  });

  it('counts what has no trace with the right answer, with the first case', async () => {
    // The third class is in the validation split alone.
    const folder = freshPath();
    mkdirSync(folder);
    const labels = Array.from({ length: 16 }, (_, n) => {
      const name = n === 13 ? 'rare' : n % 2 === 0 ? 'slow' : 'fast';
      const values = Array.from({ length: 64 }, (_, i) =>
        Math.sin((i + n) / (n % 2 === 0 ? 5 : 2)).toFixed(4),
      );
      writeFileSync(join(folder, `s${n}.csv`), `value\n${values.join('\n')}\n`);
      return `s${n}.csv,${name},${n < 12 ? 'train' : 'validation'}`;
    });
    writeFileSync(join(folder, 'labels.csv'), `${['file,class,split', ...labels].join('\n')}\n`);
    const { notes, splits } = Materials.of(new ExampleSet(await prepared('custom', '--from', folder)))!.facts;
    expect(notes).toEqual([
      expect.stringMatching(
        /^1 example has no trace with the right answer: custom\/\S*s13\S*: class rare: not in/,
      ),
    ]);
    expect(splits.validation).toMatchObject({ teacher: 3, blind: 4, score: { count: 4 } });
  });
});

describe('what is written does not depend on', () => {
  const made = async (workers: number): Promise<string> => {
    const out = freshPath();
    await prepare(benchmarkNamed('custom'), out, {
      directory: source,
      shares: { train: 4, validation: 1, test: 1 },
      complete: async (temporary, manifest) => {
        const signal = new AbortController().signal;
        const options = { figures: true, traces: true, signal, workers };
        return addMaterials(temporary, manifest, options);
      },
    });
    return out;
  };
  const source = table(30);

  it('the number of threads', async () => {
    const alone = digests(await made(0));
    expect(Object.keys(alone)).toHaveLength(30 + 3 + 3 + 2);
    expect(digests(await made(2))).toEqual(alone);
  });
});

describe('a Worker that fails', () => {
  it('ends the work with its reason, and leaves nothing', async () => {
    const { signal } = new AbortController();
    const work = { directory: freshPath(), parts: { figures: true, traces: true } };
    const pool = new MaterialPool(work, 1, signal);
    const first = pool.compose([{ split: 'train', index: 0 }]).next();
    await expect(first).rejects.toThrow(
      /a Worker failed at train 1 \(.*manifest\.json.*\); nothing was written/,
    );
    await pool.close();
  });
});

describe('an interruption', () => {
  it.each([0, 2])('while %i Workers compose leaves nothing', async (workers) => {
    const folder = freshPath();
    mkdirSync(folder);
    const controller = new AbortController();
    const reason = new Error('enough');
    let done = 0;
    const work = prepare(benchmarkNamed('anomllm'), join(folder, 'set'), {
      directory: null,
      counts: { train: 40, validation: 2, test: 2 },
      complete: async (temporary, manifest) => {
        const { signal } = controller;
        const onProgress = (_: string, now: number): void => {
          done = now;
          if (now === 3) controller.abort(reason);
        };
        return addMaterials(temporary, manifest, {
          figures: true,
          traces: true,
          signal,
          workers,
          onProgress,
        });
      },
    });
    await expect(work).rejects.toBe(reason);
    expect(done).toBeLessThan(30);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('by Ctrl-C while figures are drawn leaves nothing, and exits with 130', async () => {
    const folder = freshPath();
    mkdirSync(folder);
    const args = ['data', 'prepare', 'vta', '--count', '200', '--out', join(folder, 'set')];
    const child = spawn(process.execPath, [CLI, ...args], {
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    const ended = new Promise<number | null>((done) => child.on('close', done));
    const drawn = (): boolean =>
      readdirSync(folder).some((name) => existsSync(join(folder, name, 'figures/train/000001.png')));
    while (!drawn() && child.exitCode === null) await sleep(20);
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('validate', () => {
  /** Rewrites a split's materials and signs them again. */
  function tamper(path: string, split: string, change: (line: string, index: number) => string): void {
    const file = join(path, `${split}.prompts.jsonl`);
    const text = `${readFileSync(file, 'utf8').trimEnd().split('\n').map(change).join('\n')}\n`;
    writeFileSync(file, text);
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    const sha256 = createHash('sha256').update(text).digest('hex');
    Object.assign(manifest.materials.splits[split].prompts, { bytes: Buffer.byteLength(text), sha256 });
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
  }

  it('lists prompts, answers, traces and figures that are not what they should be, by line', async () => {
    const path = await prepared('vta', '--count', 'train=10,test=2', '--split', 'train,test');
    tamper(path, 'train', (line, index) => {
      if (index === 1) return line.replace('The plot shows', 'The plot hides');
      if (index === 2) return line.replace(/"gold":"<answer>\[\[/, '"gold":"<answer>[[1');
      if (index === 3) return line.replace(/<\/think><answer>\[\[\d+/, '</think><answer>[[1');
      return index === 4 ? line.replace(/("blind":"<think>[^"]*)<\/class>"/, '$1"') : line;
    });
    const figure = (index: number): string => join(path, `figures/train/00000${index}.png`);
    writeFileSync(figure(5), readFileSync(figure(6)));
    writeFileSync(figure(7), 'no picture');
    rmSync(figure(8));
    const { code, out } = await inside('data', 'validate', path, '--json', '--all');
    expect(code).toBe(1);
    const { broken } = JSON.parse(out) as {
      broken: { file: string; line: number | null; problem: string }[];
    };
    expect(broken.every(({ file }) => file === 'train.prompts.jsonl')).toBe(true);
    expect(broken.map(({ line, problem }) => [line, problem])).toEqual([
      [2, expect.stringMatching(/^prompt: other words/)],
      [3, expect.stringMatching(/^gold: got/)],
      [4, expect.stringMatching(/^teacher: earns 0?\.\d+ of 1/)],
      [5, expect.stringMatching(/^blind: not well formed/)],
      [6, expect.stringMatching(/^image: other pixels/)],
      [8, expect.stringMatching(/^image: is no PNG/)],
      [9, expect.stringMatching(/^image: cannot be read/)],
    ]);
    const said = await inside('data', 'validate', path, '--no-render');
    expect(said.out).toMatch(/train\.prompts\.jsonl:4: vta\/.*: teacher: earns/);
  });

  const brokenOf = async (path: string): Promise<[file: string, line: number | null, problem: string][]> => {
    const { out } = await inside('data', 'validate', path, '--json', '--no-render');
    const { broken } = JSON.parse(out) as {
      broken: { file: string; line: number | null; problem: string }[];
    };
    return broken.map(({ file, line, problem }) => [file, line, problem]);
  };

  it('notices figures that changed places by the hash of all, and says nothing of it where only their lines are wrong', async () => {
    const path = await prepared('vta', '--count', '4', '--split', 'train');
    tamper(path, 'train', (line, index) => {
      if (index === 1) return line.replace(/"id":"[^"]*"/, '"id":"another"');
      return index === 2 ? line.replace('"gold":', '"more":1,"gold":') : line;
    });
    const lines = [
      ['train.prompts.jsonl', 2, expect.stringMatching(/id: got "another", the example on this line is/)],
      ['train.prompts.jsonl', 3, expect.stringMatching(/more/)],
    ];
    expect(await brokenOf(path)).toEqual(lines);
    const figure = (index: number): string => join(path, `figures/train/00000${index}.png`);
    writeFileSync(figure(3), readFileSync(figure(0)));
    expect(await brokenOf(path)).toEqual([
      ['train.prompts.jsonl', null, expect.stringMatching(/^figures\/train: SHA-256 of the figures is not/)],
      ...lines,
    ]);
  });

  it('compares the classes that were learned with those of the training split, however they are signed', async () => {
    const path = await prepared('custom', '--from', table(24), '--shares', '3,0,1', '--no-figures');
    const sign = (change: (text: string) => string): void => {
      const text = change(readFileSync(join(path, 'classes.json'), 'utf8'));
      writeFileSync(join(path, 'classes.json'), text);
      const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
      const sha256 = createHash('sha256').update(text).digest('hex');
      Object.assign(manifest.materials.classes, { bytes: Buffer.byteLength(text), sha256 });
      writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
    };
    expect(await brokenOf(path)).toEqual([]);
    sign((text) => text.replace('"name":"slow"', '"name":"idle"'));
    expect(await brokenOf(path)).toEqual([
      ['classes.json', null, 'class "idle": learned from 9 examples, the training split has 0 of it'],
      ['classes.json', null, 'class "slow": is not among those learned'],
    ]);
    sign((text) =>
      text
        .replace('"name":"idle","count":9', '"name":"slow","count":7')
        .replace(/"heldOutAccuracy":[\d.]+/, '"heldOutAccuracy":0.25'),
    );
    expect(await brokenOf(path)).toEqual([
      ['classes.json', null, 'class "slow": learned from 7 examples, the training split has 9 of it'],
      ['classes.json', null, expect.stringMatching(/^heldOutAccuracy: got 0\.25, the manifest says /)],
    ]);
  });

  it.each<[string, string, RegExp]>([
    ['that comes twice', 'slow', /manifest\.json: classes: .*a class is listed twice/],
    ['that holds a tag', '<class>', /manifest\.json: classes\.2: got "<class>"/],
  ])('refuses a manifest with a class %s', async (_, name, reason) => {
    const path = await prepared('custom', '--from', table(12), '--shares', '1,0,1', '--no-figures');
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    manifest.classes.push(name);
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
    const { code, err } = await inside('data', 'validate', path);
    expect(err).toMatch(reason);
    expect(code).toBeGreaterThan(0);
  });

  it('calls prompts and traces of another version a remark, not broken', async () => {
    const path = await prepared('vta', '--count', '2', '--split', 'test', '--no-figures');
    tamper(path, 'test', (line) => line.replace('The plot shows', 'The plot showed'));
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    Object.assign(manifest.materials, { prompt: 'vta@0.9', traces: 99 });
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
    const { code, out } = await inside('data', 'validate', path);
    expect(code).toBe(0);
    expect(out).toMatch(
      /note: prompts are of version vta@0\.9, this program writes vta@[\d.]+: prepare again/,
    );
    expect(out).toMatch(/note: traces are of version 99, this program writes \d+: prepare again/);
  });

  it('finds other classes than were learned, and says where nothing stands beside the examples', async () => {
    const path = await prepared('custom', '--from', table(12), '--shares', '1,0,1', '--no-figures');
    const file = join(path, 'classes.json');
    writeFileSync(file, readFileSync(file, 'utf8').replace('slow', 'fast'));
    const { out } = await inside('data', 'validate', path, '--no-render');
    expect(out).toMatch(/\n {2}classes\.json: SHA-256/);
    rmSync(file);
    expect(await brokenOf(path)).toEqual([
      [
        'classes.json',
        null,
        expect.stringMatching(/is not there, but the manifest names it: prepare the data set again$/),
      ],
    ]);
    const manifest = JSON.parse(readFileSync(join(path, 'manifest.json'), 'utf8'));
    delete manifest.materials;
    writeFileSync(join(path, 'manifest.json'), JSON.stringify(manifest));
    process.exitCode = undefined;
    const bare = await inside('data', 'validate', path, '--no-render');
    expect([bare.code, bare.out]).toEqual([
      0,
      expect.stringMatching(/note: no prompts, figures and traces stand beside/),
    ]);
  });
});

describe('prepare in parts', () => {
  const part = (shard: string, out: string, ...args: readonly string[]) =>
    inside('data', 'prepare', ...args, '--out', out, '--json', '--shard', shard);
  const generated = ['anomllm', '--count', 'train=5,validation=2,test=3'] as const;

  it.each([
    { name: 'a generated task', args: (): readonly string[] => generated },
    { name: 'a task whose classes are learned', args: () => ['custom', '--from', table(24)] },
  ])('puts together, byte for byte, what one machine writes: $name', async ({ args }) => {
    const [task, ...more] = args() as [string, ...string[]];
    const want = digests(await prepared(task, ...more));
    const out = freshPath();
    for (const shard of ['3/3', '1/3', '2/3']) {
      const { code, out: said } = await part(shard, out, task, ...more);
      expect(code).toBe(0);
      expect(JSON.parse(said)).toMatchObject({ out, part: Number(shard[0]), of: 3, wasThere: false });
      expect(existsSync(out)).toBe(false);
    }
    const again = await part('2/3', out, task, ...more);
    expect(JSON.parse(again.out)).toMatchObject({ wasThere: true });
    expect(readdirSync(`${out}.parts`).sort()).toEqual(['1-of-3', '2-of-3', '3-of-3']);
    const { out: said } = await inside('data', 'prepare', task, '--out', out, '--json', ...more);
    expect(JSON.parse(said).parts).toEqual({ of: 3, missing: [] });
    expect(digests(out)).toEqual(want);
    expect(existsSync(`${out}.parts`)).toBe(false);
  });

  it('makes what is missing', async () => {
    const out = freshPath();
    await part('2/4', out, ...generated);
    const { out: said } = await inside('data', 'prepare', ...generated, '--out', out);
    expect(said).toContain('put together from 1 of 4 parts, which are removed; made here: 1, 3, 4');
    expect(digests(out)).toEqual(digests(await prepared(...generated)));
  });

  it('refuses parts of another choice, of another division, that were changed, and that are none', async () => {
    const out = freshPath();
    const put = async (...args: string[]): Promise<string> =>
      (await inside('data', 'prepare', ...args, '--out', out)).err;
    await part('1/2', out, ...generated);
    expect(await put(...generated, '--no-traces')).toMatch(
      /1-of-2: was made from other data, options or another version; remove it/,
    );
    await part('2/3', out, ...generated);
    expect(await put(...generated)).toMatch(/2-of-3: is of another division than 1-of-2/);
    rmSync(join(`${out}.parts`, '2-of-3'), { recursive: true });
    const folder = join(`${out}.parts`, '1-of-2');
    const lines = join(folder, 'materials.jsonl');
    const whole = readFileSync(lines, 'utf8');
    for (const damage of [
      () => writeFileSync(lines, whole.replace('"material"', '"materiel"')),
      () => writeFileSync(lines, whole.slice(0, -10)),
      () => rmSync(lines),
      () => writeFileSync(join(folder, 'part.json'), '{}'),
    ]) {
      damage();
      expect(await put(...generated)).toMatch(/1-of-2: is no whole part .* make it again with --shard/);
      const again = await part('1/2', out, ...generated);
      expect(JSON.parse(again.out)).toMatchObject({ wasThere: false });
      expect(readFileSync(lines, 'utf8')).toBe(whole);
    }
    rmSync(`${out}.parts`, { recursive: true });
    writeFileSync(`${out}.parts`, '');
    expect(await put(...generated)).toMatch(
      /\.parts: is where parts of the data set would be, and no folder/,
    );
    expect((await part('1/2', out, ...generated)).err).toMatch(/^error: .*\.parts/);
    expect(existsSync(out)).toBe(false);
    expect((await part('1/11', out, ...generated)).err).toMatch(/--shard: 11 parts of 10 examples/);
    expect((await part('0/2', out, ...generated)).err).toMatch(/--shard: got '0\/2'/);
  });
});
