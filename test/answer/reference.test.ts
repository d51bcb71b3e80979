import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findPolicy } from '../../src/answer/reference.ts';

const home = process.cwd();
let directory = '';

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'find-policy-'));
  process.chdir(directory);
});

afterEach(() => {
  process.chdir(home);
  rmSync(directory, { recursive: true, force: true });
});

describe('a policy that is not there', () => {
  test('by the name of a repository: says how to download it, or where its download is', () => {
    const name = 'Qwen/Qwen2.5-VL-3B-Instruct';
    expect(() => findPolicy(name)).toThrow(
      `${name}: no such directory; if it is a repository of the Hugging Face hub, ` +
        `\`npx timeseer pull ${name}\` downloads it into models/Qwen2.5-VL-3B-Instruct`,
    );
    mkdirSync('models/Qwen2.5-VL-3B-Instruct', { recursive: true });
    writeFileSync('models/Qwen2.5-VL-3B-Instruct/config.json', '{}');
    expect(() => findPolicy(name)).toThrow('the download of that name is models/Qwen2.5-VL-3B-Instruct');
  });

  test('in the place of downloads: says what fills it', () => {
    expect(() => findPolicy('models/Qwen2.5-VL-7B-Instruct')).toThrow(
      '`npx timeseer pull OWNER/Qwen2.5-VL-7B-Instruct` downloads it',
    );
  });

  test('but an adapter is: says how to give it', () => {
    mkdirSync('lora');
    writeFileSync('lora/adapter_config.json', '{}');
    expect(() => findPolicy('lora')).toThrow(/lora: is an adapter; give its base checkpoint with --policy/);
  });

  test.each(['runs/quickstart', 'nowhere', '../a/b', './a', '/no/such/place', 'here/x'])(
    '%s is a path: says how to make a policy',
    (path) => {
      mkdirSync('here');
      expect(() => findPolicy(path)).toThrow(/no such directory; `npx timeseer quickstart` makes one/);
    },
  );
});
