import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { CheckpointError } from '../../src/ground/errors.ts';
import { writeFileAtomic } from '../../src/ground/files.ts';
import {
  checkFiles,
  damageOf,
  hashesIn,
  MANIFEST_FILE,
  writeManifestedDirectory,
} from '../../src/ground/manifest.ts';
import { createAdapter, loadAdapter, saveAdapter } from '../../src/policy/lora.ts';
import { Policy } from '../../src/policy/policy.ts';
import { readCard } from '../../src/tasks/card.ts';
import { temporary } from '../helpers/temporary.ts';
import { edit, timeseer, writeTinyPolicy } from '../helpers/tiny-run.ts';

const shared = temporary('manifest');
const saved = join(shared, 'saved');
const adapter = join(shared, 'adapter');
const series = join(shared, 'series.csv');
const engine = openTorch({ threads: 1 });
let policy = '';

beforeAll(() => {
  writeTinyPolicy(saved);
  writeFileSync(series, Array.from({ length: 400 }, (_, i) => Math.sin(i / 9).toFixed(4)).join('\n'));
  const adapted = Policy.load(engine, saved, {
    adapter: (dims) => createAdapter(engine, dims, { rank: 2, alpha: 4, targets: ['q_proj'] }, 7),
  });
  saveAdapter(adapted, adapter, saved);
  adapted.dispose();
});
beforeEach(() => {
  policy = join(mkdtempSync(join(shared, 'one-')), 'policy');
  cpSync(saved, policy, { recursive: true });
});
afterEach(() => rmSync(join(policy, '..'), { recursive: true, force: true }));

describe('a manifest', () => {
  test('lists every file, in the format of sha256sum, whoever wrote it', () => {
    const directory = join(shared, 'made');
    writeManifestedDirectory(directory, (temporary) => {
      writeFileAtomic(join(temporary, 'a.json'), ['{', Buffer.from('}')]);
      writeFileAtomic(join(temporary, 'a.json'), '[]');
      writeFileSync(join(temporary, 'b'), '');
    });
    expect(readFileSync(join(directory, MANIFEST_FILE), 'utf8')).toBe(
      '4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945  a.json\n' +
        'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n',
    );
    expect(execFileSync('sha256sum', ['-c', MANIFEST_FILE], { cwd: directory }).toString()).toBe(
      'a.json: OK\nb: OK\n',
    );
    const before = hashesIn(directory);
    rmSync(join(directory, MANIFEST_FILE));
    expect(hashesIn(directory)).toEqual(before);
    expect(damageOf(directory)).toBeNull();
  });

  test('lists the files of the folder onnx, and names one that is damaged, missing or new', () => {
    const directory = join(shared, 'graphs');
    writeManifestedDirectory(directory, (temporary) => {
      writeFileAtomic(join(temporary, 'config.json'), '{}');
      writeFileAtomic(join(temporary, 'onnx', 'a.onnx'), 'graph');
    });
    expect(execFileSync('sha256sum', ['-c', MANIFEST_FILE], { cwd: directory }).toString()).toBe(
      'config.json: OK\nonnx/a.onnx: OK\n',
    );
    expect(damageOf(directory)).toBeNull();
    writeFileSync(join(directory, 'onnx', 'b.onnx'), 'another');
    expect(damageOf(directory)).toMatch(/onnx\/b\.onnx: was not saved there/);
    rmSync(join(directory, 'onnx', 'b.onnx'));
    writeFileSync(join(directory, 'onnx', 'a.onnx'), 'grapf');
    expect(damageOf(directory)).toMatch(/onnx\/a\.onnx: differs from what was saved there/);
    rmSync(join(directory, 'onnx'), { recursive: true });
    expect(damageOf(directory)).toMatch(/onnx\/a\.onnx: no such file/);
  });

  test('names what differs and how to go on with a change that is meant', () => {
    const file = join(policy, 'generation_config.json');
    edit(file, (text) => text.replace('true', 'false'));
    expect(() => checkFiles(policy)).toThrow(CheckpointError);
    expect(() => checkFiles(policy)).toThrow(
      new RegExp(
        `^${file}: differs from what was saved there .*; copy the directory again, or, if you changed it on purpose, delete ${join(policy, MANIFEST_FILE)}: it is then loaded as it is$`,
      ),
    );
    rmSync(join(policy, MANIFEST_FILE));
    Policy.load(engine, policy).dispose();
  });
});

/** 64 KiB of zeros, or as much as there is behind the header. */
function zero(file: string): void {
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0, Math.max(bytes.length >> 1, bytes.length - 65_536)));
}

describe('a saved policy that is damaged or changed', () => {
  test.each<[string, (directory: string) => void, RegExp]>([
    [
      'zeros in its weights',
      (directory) => zero(join(directory, 'model.safetensors')),
      /model\.safetensors: differs/,
    ],
    [
      'another image_mean',
      (directory) =>
        edit(join(directory, 'preprocessor_config.json'), (text) => text.replace(/0\.48145466/, '0.5')),
      /preprocessor_config\.json: differs/,
    ],
    ['no card', (directory) => rmSync(join(directory, 'timeseer.json')), /timeseer\.json: no such file/],
    [
      'half a manifest',
      (directory) => truncateSync(join(directory, MANIFEST_FILE), 90),
      /timeseer\.sha256:2: /,
    ],
  ])('%s: is not loaded', (_name, damage, message) => {
    damage(policy);
    expect(() => Policy.load(engine, policy)).toThrow(CheckpointError);
    expect(() => Policy.load(engine, policy)).toThrow(message);
  });

  test('its card is not read', () => {
    edit(join(policy, 'timeseer.json'), (text) => text.replace('"length": 400', '"length": 200'));
    expect(() => readCard(policy)).toThrow(/timeseer\.json: differs from what was saved there/);
    rmSync(join(policy, 'timeseer.json'));
    expect(() => readCard(policy)).toThrow(/timeseer\.json: no such file, but timeseer\.sha256 lists it/);
  });

  test('an adapter is not loaded', () => {
    const copy = join(policy, 'adapter');
    cpSync(adapter, copy, { recursive: true });
    edit(join(copy, 'adapter_config.json'), (text) => text.replace('"lora_alpha": 4', '"lora_alpha": 5'));
    const { dims } = Policy.load(engine, saved, { tuning: 'none' });
    expect(() => loadAdapter(engine, dims, copy)).toThrow(
      /adapter_config\.json: differs from what was saved there/,
    );
  });

  test.each([
    ['explain', () => ['explain', series, '--policy', policy, '--out', join(policy, '../page.html')]],
    ['eval', () => ['eval', '--policy', policy, '--count', '1', '--quiet']],
    ['merge', () => ['merge', '--policy', policy, '--adapter', adapter, '--out', join(policy, '../merged')]],
    ['train', () => ['train', '--policy', policy, '--out', join(policy, '../run'), '--quiet']],
  ])('%s says so and ends with an error', async (_name, command) => {
    zero(join(policy, 'model.safetensors'));
    const { code, err, out } = await timeseer(...command());
    expect(err).toContain(`error: ${join(policy, 'model.safetensors')}: differs from what was saved there`);
    expect({ code, out }).toEqual({ code: 3, out: '' });
  });
});
