import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { CheckpointError, ConfigError, EndpointError } from '../../src/ground/errors.ts';
import { WriteError } from '../../src/ground/files.ts';
import { fits } from '../../src/ground/paths.ts';
import { Hub, type HubOptions, parseRepo } from '../../src/hub/hub.ts';
import {
  checkPath,
  neededByPolicy,
  type Pulled,
  type PullOptions,
  type PullProgress,
  pull,
} from '../../src/hub/pull.ts';
import { FakeHub, REPO } from '../helpers/fake-hub.ts';
import { GOLDEN } from '../policy/golden.ts';

const CONFIG = readFileSync(join(GOLDEN, 'config.json'), 'utf8');
const [SHARD_1, SHARD_2] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
const INDEX = JSON.stringify({ weight_map: { a: SHARD_1, b: SHARD_2, c: SHARD_1 } });
const [FIRST, SECOND] = ['1'.repeat(40), '2'.repeat(40)];

/** Bytes that differ everywhere. */
const bytes = (length: number, seed: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, i) => (i * 37 + (i >> 8) * 11 + seed * 101) & 255));

const [CONTENT_1, CONTENT_2] = [bytes(150_000, 1), bytes(90_001, 2)];
const FILES: Readonly<Record<string, string | Uint8Array>> = {
  '.gitattributes': 'x',
  'README.md': '# Tiny',
  'config.json': CONFIG,
  'model.safetensors.index.json': INDEX,
  [SHARD_1]: CONTENT_1,
  [SHARD_2]: CONTENT_2,
  'onnx/model.onnx': 'large',
  'pytorch_model.bin': 'pickle',
  'pytorch_model.bin.index.json': '{}',
  'tokenizer.json': '{"ü": 1}',
};
const NEEDED = [
  'README.md',
  'config.json',
  SHARD_1,
  SHARD_2,
  'model.safetensors.index.json',
  'tokenizer.json',
].sort();

let home = '';
let out = '';
let server: FakeHub;

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'pull-'));
  out = join(home, 'policy');
  mkdirSync(out);
  server = new FakeHub();
  await server.start();
  server.commit(FIRST, FILES);
});

afterEach(async () => {
  await server.stop();
  rmSync(home, { recursive: true, force: true });
});

const hubOf = (options: HubOptions = {}): Hub =>
  new Hub({ endpoint: server.endpoint, pause: 1, attempts: 4, ...options });

function fetchAll(options: Partial<PullOptions> = {}): Promise<Pulled> {
  const { signal } = new AbortController();
  return pull({ hub: hubOf(), repo: REPO, revision: 'main', out, signal, ...options });
}

const visible = (): string[] =>
  readdirSync(out)
    .filter((name) => !name.startsWith('.'))
    .sort();

function expectContent(files: Readonly<Record<string, string | Uint8Array>> = FILES): void {
  for (const name of NEEDED) {
    expect(readFileSync(join(out, name)).equals(Buffer.from(files[name]!)), name).toBe(true);
  }
}

describe('a whole pull', () => {
  test('fetches what a policy needs over several pages and redirects, and nothing else', async () => {
    const states: PullProgress[] = [];
    const pulled = await fetchAll({ onProgress: (state) => states.push(state) });
    expectContent();
    expect(visible()).toEqual(NEEDED);
    expect(server.apiRequests).toBe(1 + 4);
    expect([...pulled.files].sort()).toEqual(NEEDED);
    expect([...pulled.fetched].sort()).toEqual(NEEDED);
    expect(pulled).toMatchObject({
      repo: REPO,
      commit: FIRST,
      directory: out,
      removed: [],
      incomplete: null,
    });
    const total = NEEDED.reduce((sum, name) => sum + Buffer.from(FILES[name]!).length, 0);
    expect(pulled.bytes).toBe(total);
    expect(states.at(-1)).toEqual({ bytes: total, totalBytes: total, files: 6, totalFiles: 6 });
  });

  test('a second pull fetches nothing, not even after the record is lost', async () => {
    await fetchAll();
    server.take();
    expect((await fetchAll()).fetched).toEqual([]);
    rmSync(join(out, '.timeseer-pull.json'));
    expect((await fetchAll()).fetched).toEqual([]);
    writeFileSync(join(out, '.timeseer-pull.json'), '{"repo": 7');
    expect((await fetchAll()).fetched).toEqual([]);
    expect(server.take()).toEqual([]);
  });

  test('another revision fetches only what differs and removes what is gone', async () => {
    const { [SHARD_2]: _, ...rest } = FILES;
    const index = JSON.stringify({ weight_map: { a: SHARD_1 } });
    server.commit(SECOND, { ...rest, 'model.safetensors.index.json': index }, 'refs/pr/7');
    await fetchAll();
    server.take();
    const pulled = await fetchAll({ revision: 'refs/pr/7' });
    expect(pulled).toMatchObject({ commit: SECOND, removed: [SHARD_2] });
    expect(server.take()).toEqual(['model.safetensors.index.json']);
    expect(existsSync(join(out, SHARD_2))).toBe(false);
    expect((await fetchAll({ revision: FIRST })).fetched.toSorted()).toEqual([
      SHARD_2,
      'model.safetensors.index.json',
    ]);
    expectContent();
  });

  test('include and exclude choose among all files, and a choice need not be a policy', async () => {
    const pulled = await fetchAll({ include: ['onnx/*', '*.json'], exclude: ['*.index.json', 'tok*'] });
    expect([...pulled.files].sort()).toEqual(['config.json', 'onnx/model.onnx']);
    expect(readFileSync(join(out, 'onnx/model.onnx'), 'utf8')).toBe('large');
    expect(pulled.incomplete).toBe('no model.safetensors');
    await expect(fetchAll({ include: ['*.gguf'] })).rejects.toThrow(/none of its 10 files is chosen/);
  });

  test('files that were there with other content are kept unless forced', async () => {
    writeFileSync(join(out, 'tokenizer.json'), 'mine');
    await expect(fetchAll()).rejects.toThrow(ConfigError);
    expect(readFileSync(join(out, 'tokenizer.json'), 'utf8')).toBe('mine');
    expect(server.take()).toEqual([]);
    await fetchAll({ force: true });
    expectContent();
  });

  test('a pulled file that was changed since is not silently replaced', async () => {
    await fetchAll();
    writeFileSync(join(out, 'config.json'), CONFIG.replace('{', '{ '));
    await expect(fetchAll()).rejects.toThrow(/config\.json: exists with other content .* --force/);
    // Same size, other time and content.
    writeFileSync(join(out, 'config.json'), CONFIG.replace('silu', 'gelu'));
    utimesSync(join(out, 'config.json'), 1, 1);
    await expect(fetchAll()).rejects.toThrow(/other content/);
    await fetchAll({ force: true });
    expectContent();
  });
});

describe('resuming', () => {
  test('a part goes on where it stopped', async () => {
    server.faults.set(SHARD_1, [{ cut: 100_000 }]);
    await expect(fetchAll({ hub: hubOf({ attempts: 1 }) })).rejects.toThrow(/broke .*/);
    const kept = statSync(join(out, `${SHARD_1}.part`)).size;
    expect(kept).toBeGreaterThan(0);
    expect(existsSync(join(out, SHARD_1))).toBe(false);
    server.take();
    server.stored.length = 0;
    const states: PullProgress[] = [];
    await fetchAll({ onProgress: (state) => states.push(state) });
    expectContent();
    expect(server.stored.find(({ path }) => path === SHARD_1)?.range).toBe(`bytes=${kept}-`);
    expect(states.at(-1)!.bytes).toBe(states.at(-1)!.totalBytes);
    expect(visible()).toEqual(NEEDED);
  });

  test('a part that is whole already is only verified', async () => {
    await fetchAll();
    const record = JSON.parse(readFileSync(join(out, '.timeseer-pull.json'), 'utf8'));
    record.parts = { [SHARD_2]: record.files[SHARD_2].hash };
    writeFileSync(join(out, '.timeseer-pull.json'), JSON.stringify(record));
    rmSync(join(out, SHARD_2));
    writeFileSync(join(out, `${SHARD_2}.part`), FILES[SHARD_2]!);
    server.take();
    expect((await fetchAll()).fetched).toEqual([SHARD_2]);
    expect(server.take()).toEqual([]);
    expectContent();
  });

  test.each([
    ['of another revision', CONTENT_1.subarray(0, 1000), `sha256:${'0'.repeat(64)}`],
    ['of unknown origin', bytes(1000, 9), undefined],
    ['longer than the file', bytes(200_000, 1), 'same'],
  ])('a part %s is dropped', async (_, part, hash) => {
    await fetchAll();
    const record = JSON.parse(readFileSync(join(out, '.timeseer-pull.json'), 'utf8'));
    if (hash !== undefined) {
      record.parts = { [SHARD_1]: hash === 'same' ? record.files[SHARD_1].hash : hash };
    }
    writeFileSync(join(out, '.timeseer-pull.json'), JSON.stringify(record));
    rmSync(join(out, SHARD_1));
    writeFileSync(join(out, `${SHARD_1}.part`), part);
    server.stored.length = 0;
    await fetchAll();
    expect(server.stored.map(({ range }) => range)).toEqual([undefined]);
    expectContent();
  });

  test('a damaged part is fetched anew in the same pull', async () => {
    server.faults.set(SHARD_1, [{ cut: 70_000 }]);
    await expect(fetchAll({ hub: hubOf({ attempts: 1 }) })).rejects.toThrow(EndpointError);
    const part = join(out, `${SHARD_1}.part`);
    const holed = readFileSync(part);
    holed[17]! ^= 1;
    writeFileSync(part, holed);
    server.stored.length = 0;
    await fetchAll();
    expectContent();
    expect(server.stored.filter(({ path }) => path === SHARD_1).map(({ range }) => range)).toEqual([
      `bytes=${holed.length}-`,
      undefined,
    ]);
  });

  test('a server without ranges sends it all again', async () => {
    server.faults.set(SHARD_1, [{ cut: 70_000 }, 'no ranges']);
    await fetchAll();
    expectContent();
  });
});

describe('failures that pass', () => {
  test.each([
    ['503', [{ status: 503 }, { status: 502 }]],
    ['429', [{ status: 429, headers: { 'retry-after': '0' } }]],
    ['a broken connection', [{ cut: 10 }, { cut: 0 }, { cut: 50_000 }]],
  ])('%s is tried again', async (_, faults) => {
    server.faults.set(SHARD_1, [...faults]);
    server.faults.set('tokenizer.json', [{ status: 500 }]);
    const notes: string[] = [];
    await fetchAll({ hub: hubOf({ onRetry: (message) => notes.push(message) }) });
    expectContent();
    expect(notes).toHaveLength(faults.length + 1);
    expect(notes.join('\n')).toMatch(/again in \d+ s/);
  });

  test('only failures in a row count: a connection that moves is never given up', async () => {
    server.faults.set(
      SHARD_1,
      Array.from({ length: 7 }, () => ({ cut: 15_000 })),
    );
    await fetchAll({ hub: hubOf({ attempts: 2 }) });
    expectContent();
  });

  test('the API is asked again too, and no more often than allowed', async () => {
    server.faults.set('api', [{ status: 503 }, { status: 504 }]);
    await fetchAll();
    server.faults.set(
      'api',
      Array.from({ length: 9 }, () => ({ status: 503 })),
    );
    server.apiRequests = 0;
    await expect(fetchAll()).rejects.toThrow(/owner\/tiny-vl at main: .*status 503.* later/);
    expect(server.apiRequests).toBe(4);
  });

  test('a server that asks for a pause of hours is not waited for', async () => {
    server.faults.set('api', [{ status: 429, headers: { 'retry-after': '7200' } }]);
    await expect(fetchAll()).rejects.toThrow(/status 429.* asks to slow down/);
  });

  test('a connection that falls silent is given up and opened anew', async () => {
    server.faults.set(SHARD_1, [{ hang: 60_000 }]);
    const notes: string[] = [];
    await fetchAll({ hub: hubOf({ silence: 150, onRetry: (message) => notes.push(message) }) });
    expectContent();
    expect(notes.join()).toMatch(/nothing came for/);
  });
});

describe('failures that stay', () => {
  test('wrong bytes are an error, and a clean second pull succeeds', async () => {
    server.faults.set(SHARD_2, [{ corrupt: 77 }]);
    await expect(fetchAll()).rejects.toThrow(
      /tiny-vl: model-00002-of-00002\.safetensors: .*was discarded: its hash is .*, expected /,
    );
    expect(existsSync(join(out, SHARD_2))).toBe(false);
    expect(statSync(join(out, `${SHARD_2}.part`)).size).toBe(0);
    await fetchAll();
    expectContent();
  });

  test('wrong bytes of a small file too, by its git hash', async () => {
    server.faults.set('tokenizer.json', [{ corrupt: 2 }]);
    await expect(fetchAll()).rejects.toThrow(/tokenizer\.json: .*was discarded: its hash is/);
    expect(existsSync(join(out, 'tokenizer.json'))).toBe(false);
  });

  test('more bytes than announced are refused', async () => {
    server.faults.set(SHARD_2, ['too long']);
    await expect(fetchAll()).rejects.toThrow(/sends more than the announced 90001 bytes/);
    await fetchAll();
    expectContent();
  });

  test.each([
    [{ status: 401 }, /status 401.*no such repository, or it is private or gated.*HF_TOKEN/],
    [
      { status: 403, headers: { 'x-error-code': 'GatedRepo' } },
      /status 403.*accept its licence.*HF_TOKEN or --token/,
    ],
    [{ status: 404 }, /status 404.*check the name and --revision/],
    [{ status: 418 }, /status 418.*refuses/],
  ])('%j is said at once, with what to do', async (fault, message) => {
    server.faults.set('api', [fault]);
    await expect(fetchAll()).rejects.toThrow(message);
    expect(server.apiRequests).toBe(1);
  });

  test('a gated repository that lists its files but does not give them asks to accept its licence', async () => {
    server.faults.set('config.json', [{ status: 401, headers: { 'x-error-code': 'GatedRepo' } }]);
    await expect(fetchAll()).rejects.toThrow(/config\.json: .*does not let you read it; accept its licence/);
    expect(server.stored).toEqual([]);
  });

  test('unknown repository and unknown revision are told apart', async () => {
    await expect(fetchAll({ repo: 'owner/other' })).rejects.toThrow(/finds no such repository/);
    await expect(fetchAll({ revision: 'v9' })).rejects.toThrow(
      /tiny-vl at v9: .*no such revision.*--revision/,
    );
  });

  test('a server that is none says what it should be', async () => {
    server.faults.set('api', [{ status: 200 }]);
    await expect(fetchAll()).rejects.toThrow(/names no commit of owner\/tiny-vl.*is it a Hugging Face hub/);
    for (const nonsense of ['nonsense', null, 7, { type: 'file' }]) {
      server.relist = () => nonsense;
      await expect(fetchAll()).rejects.toThrow(EndpointError);
    }
    server.relist = (entry) => ({ ...entry, oid: 'abc' });
    await expect(fetchAll()).rejects.toThrow(/without path, size or hash.*is it a Hugging Face hub/);
    server.relist = (entry) => ({ ...entry, size: -1, lfs: undefined });
    await expect(fetchAll()).rejects.toThrow(/without path, size or hash/);
  });

  test('no network names the endpoint and the ways around, and is not tried again', async () => {
    // A port that was free a moment ago.
    const probe = createServer();
    await new Promise<void>((done) => probe.listen(0, '127.0.0.1', done));
    const { port } = probe.address() as { port: number };
    await new Promise((done) => probe.close(done));
    const onRetry = vi.fn();
    const hub = new Hub({ endpoint: `http://127.0.0.1:${port}`, onRetry });
    await expect(fetchAll({ hub })).rejects.toThrow(
      new RegExp(
        `127.0.0.1:${port} cannot be reached .*mirror with --endpoint or HF_ENDPOINT.*copy the directory`,
      ),
    );
    expect(onRetry).not.toHaveBeenCalled();
  });

  test('a file of another architecture stops before the weights', async () => {
    server.commit(SECOND, { ...FILES, 'config.json': CONFIG.replace('"qwen2_5_vl"', '"llava"') });
    await expect(fetchAll()).rejects.toThrow(CheckpointError);
    expect(server.stored).toEqual([]);
  });

  test.each([
    ['config.json', /no config\.json/],
    ['tokenizer.json', /no tokenizer\.json/],
    [SHARD_2, /no model-00002-of-00002\.safetensors/],
  ])('a repository without %s is refused before the weights', async (name, message) => {
    const files = Object.fromEntries(Object.entries(FILES).filter(([path]) => path !== name));
    server.commit(SECOND, files);
    await expect(fetchAll()).rejects.toThrow(message);
    expect(server.stored).toEqual([]);
  });

  test('a disk that is too small is noticed before anything is fetched', async () => {
    server.relist = (entry) =>
      entry['path'] === SHARD_1
        ? { ...entry, lfs: { oid: '0'.repeat(64), size: 2 ** 52, pointerSize: 1 } }
        : entry;
    await expect(fetchAll()).rejects.toThrow(/4503599\.\d GB remain to be downloaded and only .* free/);
    expect(server.take()).toEqual([]);
  });

  test.skipIf(!existsSync('/dev/full'))(
    'a disk that fills up says so, and the next pull goes on',
    async () => {
      server.faults.set(SHARD_1, [{ cut: 10 }]);
      await expect(fetchAll({ hub: hubOf({ attempts: 1 }) })).rejects.toThrow(EndpointError);
      const part = join(out, `${SHARD_1}.part`);
      rmSync(part);
      symlinkSync('/dev/full', part);
      await expect(fetchAll()).rejects.toThrow(
        /model-00001.*\.part: not written \(the disk is full: free some/,
      );
      rmSync(part);
      await fetchAll();
      expectContent();
    },
  );

  test('a file where a directory has to be is an error of the disk', async () => {
    writeFileSync(join(out, 'onnx'), '');
    await expect(fetchAll({ include: ['onnx/*'] })).rejects.toThrow(WriteError);
  });

  test('one failure stops the others and keeps their parts', async () => {
    let open = (): void => undefined;
    server.gates.set('tokenizer.json', new Promise((done) => (open = done)));
    server.faults.set('tokenizer.json', [{ status: 403 }]);
    server.faults.set(SHARD_1, [{ hang: 60_000 }]);
    const run = fetchAll({
      onProgress: () => {
        const part = join(out, `${SHARD_1}.part`);
        if (existsSync(part) && statSync(part).size === 60_000) open();
      },
    });
    await expect(run).rejects.toThrow(/tokenizer\.json: .*status 403/);
    expect(statSync(join(out, `${SHARD_1}.part`)).size).toBe(60_000);
  });
});

describe('aborting', () => {
  test('in the middle keeps the parts, and the next pull goes on', async () => {
    server.faults.set(SHARD_1, [{ hang: 60_000 }]);
    const stop = new AbortController();
    const reason = new Error('enough');
    const run = fetchAll({
      signal: stop.signal,
      onProgress: ({ bytes: got, totalBytes }) => {
        if (got >= totalBytes - 90_000) stop.abort(reason);
      },
    });
    await expect(run).rejects.toBe(reason);
    const kept = statSync(join(out, `${SHARD_1}.part`)).size;
    expect(kept).toBeGreaterThan(0);
    server.stored.length = 0;
    await fetchAll();
    expect(server.stored.map(({ path, range }) => [path, range])).toEqual([[SHARD_1, `bytes=${kept}-`]]);
    expectContent();
  });
});

describe('tokens', () => {
  test('go to the endpoint alone, never to the store it redirects to', async () => {
    server.token = 'hf_secret';
    await expect(fetchAll()).rejects.toThrow(/pass a token/);
    await expect(fetchAll({ hub: hubOf({ token: 'hf_wrong' }) })).rejects.toThrow(/check that the token may/);
    await fetchAll({ hub: hubOf({ token: ' hf_secret\n' }) });
    expectContent();
    expect(server.asked.every(({ authorization }) => authorization === 'Bearer hf_secret')).toBe(true);
    expect(server.stored).toHaveLength(2);
    expect(server.stored.every(({ authorization }) => authorization === undefined)).toBe(true);
  });

  test('that cannot be one are refused without being shown', () => {
    expect(() => hubOf({ token: 'hf_a b' })).toThrow(ConfigError);
    expect(() => hubOf({ token: 'hf_a b' })).toThrow(
      expect.not.stringContaining('hf_a') as unknown as string,
    );
  });
});

describe('names from the server', () => {
  test.each([
    '../evil.safetensors',
    'a/../../evil.safetensors',
    '/etc/evil.safetensors',
    '..\\evil.safetensors',
    'a//b.safetensors',
    './b.safetensors',
    'c:evil.safetensors',
    'a\nb.safetensors',
    '.timeseer-pull.json',
    'model.safetensors.part',
    '',
  ])('%j is refused', async (name) => {
    expect(() => checkPath(name, 'hub')).toThrow(EndpointError);
    server.relist = (entry) => (entry['path'] === SHARD_1 ? { ...entry, path: name } : entry);
    await expect(fetchAll({ include: ['*'] })).rejects.toThrow(/do not trust this repository/);
    expect(server.take()).toEqual([]);
    expect(readdirSync(home)).toEqual(['policy']);
  });

  test('ordinary ones pass', () => {
    for (const name of ['config.json', 'a/b c.json', '..a', 'ü.txt', 'a..b']) checkPath(name, 'hub');
  });

  test('whatever passes stays inside', () => {
    const part = fc.constantFrom('..', '.', '', 'a', '\\', '/', 'b.json', '...', 'C:', ' ');
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), fc.constantFrom('/', ''), (parts, between) => {
        const name = parts.join(between);
        try {
          checkPath(name, 'hub');
        } catch {
          return;
        }
        expect(join('/models', name).startsWith('/models/')).toBe(true);
      }),
    );
  });
});

describe('what a policy needs', () => {
  test.each([
    ['config.json', true],
    ['generation_config.json', true],
    ['merges.txt', true],
    ['chat_template.jinja', true],
    ['preprocessor_config.json', true],
    ['model.safetensors', true],
    ['LICENSE', true],
    ['pytorch_model.bin', false],
    ['pytorch_model.bin.index.json', false],
    ['model.gguf', false],
    ['onnx/model.safetensors', false],
    ['.gitattributes', false],
    ['.hidden.json', false],
    ['image.png', false],
  ])('%s: %s', (path, needed) => {
    expect(neededByPolicy(path)).toBe(needed);
  });

  test('patterns match the whole path', () => {
    expect(fits('a/b.json', '*.json')).toBe(true);
    expect(fits('a.json.bak', '*.json')).toBe(false);
    expect(fits('axjson', '*.json')).toBe(false);
    expect(fits('a+(b).json', 'a+(b).jso?')).toBe(true);
    expect(fits('[a]', '[a]')).toBe(true);
    expect(fits('', '**')).toBe(true);
    expect(fits('abcabd', 'a*ab?')).toBe(true);
    expect(fits('abcabd', '*abc')).toBe(false);
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'b', '/'), maxLength: 8 }),
        fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 6 }),
        (path, pattern) => {
          const source = pattern.replaceAll('*', '.*').replaceAll('?', '.');
          expect(fits(path, pattern)).toBe(new RegExp(`^${source}$`, 's').test(path));
        },
      ),
    );
    // With one attempt per way to place six stars, this would not end.
    expect(fits('a'.repeat(5_000), '*a*a*a*a*a*a*b')).toBe(false);
  });
});

describe('names on the command line', () => {
  test('a repository may be given by its address', () => {
    expect(parseRepo('Qwen/Qwen2.5-VL-3B-Instruct')).toBe('Qwen/Qwen2.5-VL-3B-Instruct');
    expect(parseRepo('https://huggingface.co/Qwen/Qwen2.5-VL-3B-Instruct/')).toBe(
      'Qwen/Qwen2.5-VL-3B-Instruct',
    );
  });

  test.each(['', 'Qwen', 'a/b/c', '../..', 'a/..', 'a/.b', '/a/b', 'a\\b', 'a/b..c', 'a/b?x', 'a b/c'])(
    '%j is no repository',
    (text) => {
      expect(() => parseRepo(text)).toThrow(ConfigError);
    },
  );

  test.each(['nowhere', 'ftp://x', 'https://user:word@x', 'https://x/?y'])(
    '%s is no endpoint',
    (endpoint) => {
      expect(() => new Hub({ endpoint })).toThrow(ConfigError);
    },
  );
});

describe('answers without end', () => {
  const json = { 'content-type': 'application/json' };
  const revision = (response: ServerResponse): void =>
    void response.writeHead(200, json).end(JSON.stringify({ _id: '1', id: REPO, sha: FIRST }));

  test('a page that names itself as the next one is asked for once', async () => {
    server.api = (url, response) => {
      if (url.pathname.includes('/revision/')) return revision(response);
      response.writeHead(200, {
        ...json,
        link: `<${server.endpoint}${url.pathname}${url.search}>; rel="next"`,
      });
      response.end('[]');
    };
    await expect(fetchAll()).rejects.toThrow(/the list of files of .* has no end/);
    expect(server.apiRequests).toBe(2);
  });

  test('JSON that never ends, and JSON that is packed a thousandfold, are cut off', async () => {
    const blanks = Buffer.alloc(1 << 20, ' ');
    server.api = (_, response) => {
      response.writeHead(200, json);
      const more = (): void => {
        if (!response.destroyed) response.write(blanks, () => setImmediate(more));
      };
      more();
    };
    await expect(fetchAll()).rejects.toThrow(/answers with more than 33554432 bytes/);
    const bomb = gzipSync(Buffer.alloc(200 << 20, ' '));
    server.api = (_, response) =>
      void response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(bomb);
    const before = process.memoryUsage().rss;
    await expect(fetchAll()).rejects.toThrow(/answers with more than 33554432 bytes/);
    expect(process.memoryUsage().rss - before).toBeLessThan(300e6);
  });

  test('paths that no file system has are refused, in a line', async () => {
    server.relist = (entry) => ({ ...entry, path: 'x'.repeat(1e6) });
    const problem = await fetchAll().catch((error: Error) => error.message);
    expect(problem).toMatch(/lists a file .* without path/);
    expect(String(problem).length).toBeLessThan(1000);
  });
});
