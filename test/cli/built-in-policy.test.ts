/** The policy that comes with timeseer: a tiny one with random weights stands in its place. */
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { findPolicy, shippedPolicy } from '../../src/answer/reference.ts';
import { type AnomalyReport, REPORT } from '../../src/explain/schema.ts';
import { damageOf, hashesIn, MANIFEST_FILE } from '../../src/ground/manifest.ts';
import { WEIGHTS } from '../../src/policy/safetensors.ts';
import { copyPolicy, exportPolicy } from '../../src/run/run-policy.ts';
import { CARD_FILE } from '../../src/tasks/card.ts';
import { inside } from '../helpers/command-line.ts';
import { temporary } from '../helpers/temporary.ts';
import { edit, writeTinyPolicy } from '../helpers/tiny-run.ts';

const package_ = vi.hoisted(() => ({ policies: '' }));
vi.mock('../../src/ground/paths.ts', async (original) => ({
  ...(await original<typeof import('../../src/ground/paths.ts')>()),
  policiesDirectory: () => package_.policies,
}));

const root = temporary('built-in');
const policies = join(root, 'policies');
const file = join(root, 'pump.csv');
const out = join(root, 'pump');

beforeAll(() => {
  writeTinyPolicy(join(root, 'policy'));
  exportPolicy({
    policy: join(root, 'policy'),
    out: join(policies, 'small'),
    dtype: ['float16'],
    quiet: true,
  });
  const small = join(policies, 'small');
  cpSync(join(root, 'policy', WEIGHTS), join(small, WEIGHTS));
  rmSync(join(small, MANIFEST_FILE));
  const closer = join(policies, 'inspect');
  cpSync(small, closer, { recursive: true });
  edit(join(closer, CARD_FILE), (card) => {
    const inspect = {
      turns: 3,
      tools: ['next'],
      lengths: null,
      detours: 0,
      calls: 0,
      penalty: 0.1,
      success: 0.8,
    };
    return JSON.stringify({ ...JSON.parse(card), inspect });
  });
  const values = Array.from({ length: 500 }, (_, i) => Math.sin(i / 7) + (i >= 400 && i < 412 ? 6 : 0));
  writeFileSync(file, `pressure\n${values.join('\n')}\n`);
});
beforeEach(() => {
  package_.policies = policies;
});

const reportOf = (): AnomalyReport => REPORT.parse(JSON.parse(readFileSync(`${out}.json`, 'utf8')));

describe('explain', () => {
  test('asks it unless told otherwise, by onnxruntime, and changes no finding by it', async () => {
    const alone = await inside('explain', file, '--out', out, '--policy', 'none');
    expect([alone.code, alone.err]).toEqual([0, '']);
    const { policy: absent, ...plain } = reportOf();
    expect(absent).toBeUndefined();
    const { code, out: text, err } = await inside('explain', file, '--out', out);
    expect(code).toBe(0);
    expect(err).not.toContain('note:');
    const { policy, ...rest } = reportOf();
    expect(rest.findings.length).toBeGreaterThan(0);
    expect(rest.findings.map((one) => ({ ...one, markedByPolicy: null }))).toEqual(plain.findings);
    expect(policy).toMatchObject({ name: 'small', record: { device: 'cpu' } });
    expect(policy!.record['engine']).toMatch(/^onnxruntime \d/);
    const { both, detectorAlone, unanswered } = policy!.agreement;
    expect(both + detectorAlone + unanswered).toBe(rest.findings.length);
    expect(policy!.columns).toMatchObject([{ column: 'pressure', status: 'abstains' }]);
    expect(text).toMatch(
      /detector and policy: \d+ found by both, \d+ by the detector alone, \d+ by the policy alone/,
    );
    expect(readFileSync(`${out}.html`, 'utf8')).toContain('Detector and policy: ');
    expect(readFileSync(`${out}.html`, 'utf8')).not.toContain(root);
  });

  test('is asked by detect where it is named, without a page, and not by --follow', async () => {
    const { code, out: text } = await inside('detect', file, '--policy', 'small', '--json');
    expect(code).toBe(0);
    const { policy, findings } = REPORT.parse(JSON.parse(text));
    expect(policy).toMatchObject({ name: 'small', columns: [{ column: 'pressure' }] });
    expect(findings.length).toBeGreaterThan(0);
    const alone = JSON.parse((await inside('detect', file, '--json')).out) as AnomalyReport;
    expect(findings.map((one) => ({ ...one, markedByPolicy: null }))).toEqual(alone.findings);
    const refused = await inside('detect', '--follow', '--policy', 'small');
    expect([refused.code, refused.err]).toEqual([2, expect.stringMatching(/--policy: --follow/)]);
  });

  test('does without it where the package holds none, and says so in one line', async () => {
    package_.policies = join(root, 'nothing');
    const { code, out: text, err } = await inside('explain', file, '--out', out);
    expect([code, err]).toEqual([
      0,
      'note: this copy of timeseer ships no policy; only the detector answers\n',
    ]);
    expect(text).toMatch(/^pump\.csv: \d+ finding/);
    expect(reportOf().policy).toBeUndefined();
    const refused = await inside('explain', file, '--out', out, '--window', '100');
    expect([refused.code, refused.err]).toEqual([2, expect.stringMatching(/--window: .* without a policy/)]);
  });

  test('does without it where nothing computes it, unless it is asked for by name', async () => {
    vi.doMock('onnxruntime-node', () => {
      throw new Error('no binary for this machine');
    });
    const { code, err } = await inside('explain', file, '--out', out);
    const named = await inside('explain', file, '--out', out, '--policy', 'small');
    vi.doUnmock('onnxruntime-node');
    expect([code, err]).toEqual([
      0,
      expect.stringMatching(/^note: the policy small is not asked: onnxruntime-node cannot be loaded .*\n$/),
    ]);
    expect(reportOf().policy).toBeUndefined();
    expect([named.code, named.err]).toEqual([
      3,
      expect.stringMatching(/^error: onnxruntime-node cannot be loaded/),
    ]);
  });

  test('asks it by its weights on the torch engine, with the same answers', async () => {
    expect((await inside('explain', file, '--out', out)).code).toBe(0);
    const responses = (): string[] =>
      reportOf().policy!.columns.flatMap(({ answers }) => answers.map(({ response }) => response));
    const ofGraphs = responses();
    expect((await inside('explain', file, '--out', out, '--engine', 'torch')).code).toBe(0);
    expect(reportOf().policy!.record['engine']).toMatch(/^torch /);
    expect(responses()).toEqual(ofGraphs);
  });

  test('asks the one that looks closer with --inspect, and names it', async () => {
    const { code } = await inside('explain', file, '--out', out, '--inspect');
    expect(code).toBe(0);
    const { policy } = reportOf();
    expect(policy).toMatchObject({ name: 'inspect', record: { turns: 3, tools: 'next' } });
    expect((await inside('explain', file, '--out', out)).code).toBe(0);
    expect(reportOf().policy).toMatchObject({ name: 'small' });
  });

  test('refuses one that is damaged', async () => {
    package_.policies = join(root, 'damaged');
    mkdirSync(package_.policies);
    exportPolicy({
      policy: join(root, 'policy'),
      out: join(package_.policies, 'small'),
      dtype: ['int8'],
      quiet: true,
    });
    truncateSync(join(package_.policies, 'small/onnx/embed_tokens_int8.onnx'), 500);
    const { code, err } = await inside('explain', file, '--out', out);
    expect([code, err]).toEqual([3, expect.stringMatching(/^error: .*embed_tokens_int8\.onnx: .*\n$/)]);
  });

  test('does not ask about a series that is much shorter than what it was taught', async () => {
    const short = join(root, 'short.csv');
    writeFileSync(short, Array.from({ length: 24 }, (_, i) => `${(i * 7) % 5}\n`).join(''));
    expect((await inside('explain', short, '--out', join(root, 'short'))).code).toBe(0);
    const { policy } = REPORT.parse(JSON.parse(readFileSync(join(root, 'short.json'), 'utf8')));
    expect(policy!.columns[0]).toMatchObject({ status: 'too short', answers: [], intervals: [] });
  });
});

describe('its name', () => {
  test('finds it, before a directory of the same name', () => {
    expect(findPolicy('small')).toBe(join(policies, 'small'));
    for (const other of ['large', '../policies/small', './small', ''])
      expect(shippedPolicy(other)).toBeNull();
    expect(findPolicy(join(root, 'policy'))).toBe(join(root, 'policy'));
  });

  test('is where graphs are enough', async () => {
    const { code, out: text } = await inside(
      ...['ask', '--policy', 'small', '--prompt', 'Find the anomalies.', '--max-tokens', '3'],
    );
    expect(code).toBe(0);
    expect(text.length).toBeGreaterThan(0);
  });

  test('is trained and exported from its weights, without its graphs', async () => {
    copyPolicy(findPolicy('small'), join(root, 'copy'));
    const copied = readdirSync(join(root, 'copy'));
    expect([copied.includes('model.safetensors'), copied.includes('onnx')]).toEqual([true, false]);
    const again = await inside('export', '--onnx', '--policy', 'small', '--out', join(root, 'again'));
    expect([again.code, again.err]).toEqual([0, expect.stringContaining('decoder_model_merged.onnx')]);
  });
});

describe.each(['small', 'inspect'])('the policy %s of the package', (name) => {
  const real = (): Promise<typeof import('../../src/ground/paths.ts')> =>
    vi.importActual('../../src/ground/paths.ts');

  test('lists its files, and they are those that were saved', async () => {
    const { policiesDirectory } = await real();
    const directory = join(policiesDirectory(), name);
    expect(damageOf(directory)).toBeNull();
    const listed = Object.keys(hashesIn(directory));
    for (const graph of readdirSync(join(directory, 'onnx'))) expect(listed).toContain(`onnx/${graph}`);
    expect(listed).toContain(WEIGHTS);
  });

  test('is one file of weights in the repository, of at most 10 MB', async () => {
    const { packageRoot } = await real();
    const directory = join(packageRoot(), 'src/policies', name);
    expect(damageOf(directory)).toBeNull();
    expect(readdirSync(directory)).not.toContain('onnx');
    expect(statSync(join(directory, WEIGHTS)).size).toBeLessThan(10e6);
  });
});

test('the package holds the directory in which it is looked for', async () => {
  const { packageRoot, policiesDirectory } =
    await vi.importActual<typeof import('../../src/ground/paths.ts')>('../../src/ground/paths.ts');
  const { files } = JSON.parse(readFileSync(resolve(packageRoot(), 'package.json'), 'utf8')) as {
    files: string[];
  };
  const [directory] = relative(packageRoot(), policiesDirectory()).split(/[\\/]/);
  expect(files).toContain(directory);
});
