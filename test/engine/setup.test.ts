import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { addonPath, buildAddon, findCompiler, targetPath } from '../../src/engine/torch/build.ts';
import { findExecutable, findLibtorch, type Libtorch } from '../../src/engine/torch/find.ts';
import { type Host, instructions, setup } from '../../src/engine/torch/setup.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { OWNER } from '../../src/ground/files.ts';
import { cacheRoot } from '../../src/ground/paths.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'timeseer-setup-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function write(file: string, text: string): string {
  const path = resolve(directory, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** A program for PATH. */
function script(file: string, body: string): string {
  const path = write(file, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return path;
}

const NEW_ABI =
  '_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE';
const OLD_ABI = '_ZN3c106detail14torchCheckFailEPKcS2_jRKSs';

/** The files of a libtorch that the search reads, with an unusual version. */
function fakeLibtorch(
  root: string,
  { version = '9.8.7', symbols = NEW_ABI, lib = 'lib', cuda = false } = {},
): string {
  write(
    join(root, 'include/ATen/ATen.h'),
    '#if !defined(_MSC_VER) && __cplusplus < 202002L\n#error\n#endif\n',
  );
  write(
    join(root, 'include/torch/csrc/api/include/torch/version.h'),
    `#define TORCH_VERSION_MAJOR 9\n#define TORCH_VERSION \\\n  "${version}"\n`,
  );
  for (const name of ['torch', 'torch_cpu', ...(cuda ? ['torch_cuda'] : [])])
    write(join(root, lib, `lib${name}.so`), '');
  write(join(root, lib, 'libc10.so'), `\0${symbols}\0`);
  return resolve(directory, root);
}

/** An environment in which nothing is found but what the test puts there. */
function bare(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  mkdirSync(join(directory, 'bin'), { recursive: true });
  return { HOME: directory, PATH: join(directory, 'bin'), TIMESEER_CACHE: join(directory, 'cache'), ...more };
}

describe('findLibtorch', () => {
  test('reads version, standard, ABI and CUDA from the files of LIBTORCH', () => {
    const root = fakeLibtorch('unpacked', { cuda: true, symbols: OLD_ABI });
    expect(findLibtorch({ env: bare({ LIBTORCH: root }), systemPrefixes: [] })).toMatchObject({
      origin: 'LIBTORCH',
      root,
      version: '9.8.7',
      standard: 20,
      cxx11Abi: false,
      cuda: true,
      libDirs: [join(root, 'lib')],
      includeDirs: [join(root, 'include'), join(root, 'include/torch/csrc/api/include')],
      libs: ['torch_cuda', 'c10_cuda', 'torch', 'torch_cpu', 'c10'],
    });
  });

  test('finds out from the symbols whether a libtorch has c10d with Gloo', () => {
    const root = fakeLibtorch('unpacked');
    const find = (): Libtorch | null => findLibtorch({ env: bare({ LIBTORCH: root }), systemPrefixes: [] });
    expect(find()).toMatchObject({ distributed: false });
    write(join(root, 'lib/libtorch_cpu.so'), '\0_ZN4c10d16ProcessGroupGlooC1ERKN3c1013intrusive_ptr\0');
    expect(find()).toMatchObject({ distributed: true });
  });

  test('takes the headers of its own CUDA version, and what they lack from beside them', () => {
    const cuda = (place: string, version: number): string => {
      write(`${place}/cuda.h`, '');
      write(`${place}/cuda_runtime_api.h`, `#define CUDART_VERSION  ${version}\n`);
      return resolve(directory, place);
    };
    const root = fakeLibtorch('site/torch', { cuda: true });
    write('site/torch/version.py', "__version__ = '9.8.7+cu132'\n");
    const find = (more: NodeJS.ProcessEnv = {}): Libtorch =>
      findLibtorch({
        env: bare({ LIBTORCH: root, ...more }),
        systemPrefixes: [],
        cudaPrefixes: [resolve(directory, 'usr/cuda')],
      })!;
    expect(find().cudaIncludes).toEqual([]);
    cuda('usr/cuda/include', 12080); // another major version
    expect(find().cudaIncludes).toEqual([]);
    const pip = cuda('site/nvidia/cu13/include', 13020);
    expect(find().cudaIncludes).toEqual([]); // without crt nothing compiles
    write('site/triton/backends/nvidia/include/crt/host_defines.h', '');
    expect(find().cudaIncludes).toEqual([pip, resolve(directory, 'site/triton/backends/nvidia/include')]);
    expect(find().stamps.map(({ file }) => file)).toContain(join(pip, 'cuda_runtime_api.h'));
    const own = cuda('mine/include', 13000);
    write('mine/include/crt/host_defines.h', '');
    expect(find({ CUDA_HOME: resolve(directory, 'mine') }).cudaIncludes).toEqual([own]);
    expect(
      findLibtorch({ env: bare({ LIBTORCH: fakeLibtorch('cpu') }), systemPrefixes: [] })?.cudaIncludes,
    ).toEqual([]);
  });

  test('a LIBTORCH that is none is an error, not a search elsewhere', () => {
    const env = bare({ LIBTORCH: directory });
    const systemPrefixes = [fakeLibtorch('usr')];
    expect(() => findLibtorch({ env, systemPrefixes })).toThrow(EngineError);
    expect(() => findLibtorch({ env, systemPrefixes })).toThrow(/LIBTORCH=.*no libtorch there.*unset it/);
  });

  test('asks the Python of PATH where torch is, and takes the version it states', () => {
    const root = fakeLibtorch('site/torch');
    write('site/torch/version.py', "__version__ = '9.8.7+cu999'\n");
    script('bin/python3', `echo ${root}`);
    const found = findLibtorch({ env: bare(), systemPrefixes: [fakeLibtorch('usr')] });
    expect(found).toMatchObject({
      origin: 'python',
      version: '9.8.7+cu999',
      root,
      cxx11Abi: true,
      cuda: false,
    });
  });

  test.each([
    ['without torch', 'echo ""'],
    ['that fails loudly', 'echo "no module" >&2; exit 1'],
    ['whose torch has no headers', 'echo /nonexistent/torch'],
  ])('a Python %s is passed over for the system', (_what, body) => {
    script('bin/python3', body);
    const root = fakeLibtorch('usr', { lib: 'lib/x86_64-linux-gnu' });
    const found = findLibtorch({ env: bare(), systemPrefixes: ['/nonexistent', root] });
    expect(found).toMatchObject({ origin: 'system', root, libDirs: [join(root, 'lib/x86_64-linux-gnu')] });
  });

  test('TIMESEER_PYTHON replaces the Python of PATH, and must exist', () => {
    script('bin/python3', `echo ${fakeLibtorch('first/torch', { version: '1.1.1' })}`);
    const TIMESEER_PYTHON = script(
      'venv/python',
      `echo ${fakeLibtorch('second/torch', { version: '2.2.2' })}`,
    );
    expect(findLibtorch({ env: bare({ TIMESEER_PYTHON }), systemPrefixes: [] })?.version).toBe('2.2.2');
    expect(findLibtorch({ env: bare(), systemPrefixes: [] })?.version).toBe('1.1.1');
    const env = bare({ TIMESEER_PYTHON: '/nonexistent/python' });
    expect(() => findLibtorch({ env, systemPrefixes: [] })).toThrow(/TIMESEER_PYTHON=.*no such program/);
  });

  test('is null where there is none', () => {
    expect(findLibtorch({ env: bare(), systemPrefixes: [join(directory, 'usr')] })).toBeNull();
  });
});

describe('findCompiler', () => {
  test('takes CXX with its leading words, and refuses one that does not run', () => {
    script('bin/g++', 'echo "g++ 99.1"');
    script('bin/ccache', 'shift; echo "g++ 99.2 through ccache"');
    expect(findCompiler(bare())).toMatchObject({
      version: 'g++ 99.1',
      command: [join(directory, 'bin/g++')],
    });
    expect(findCompiler(bare({ CXX: 'ccache g++' }))?.version).toBe('g++ 99.2 through ccache');
    expect(() => findCompiler(bare({ CXX: 'nope++' }))).toThrow(/CXX=nope\+\+: this compiler does not run/);
  });

  test('is null where there is none', () => {
    expect(findCompiler(bare())).toBeNull();
  });
});

describe('cacheRoot', () => {
  test('follows TIMESEER_CACHE, then XDG_CACHE_HOME', () => {
    expect(cacheRoot({ TIMESEER_CACHE: '/a', XDG_CACHE_HOME: '/b' })).toBe('/a');
    expect(cacheRoot({ XDG_CACHE_HOME: '/b' })).toBe('/b/timeseer');
    expect(cacheRoot({})).toMatch(/\.cache\/timeseer$/);
  });
});

/** A real toolchain, and shared libraries that stand in for libtorch: empty ones link and load in no time. */
describe('buildAddon', () => {
  let shared: string;
  let root: string;
  const source = '#include <node_api.h>\nNAPI_MODULE_INIT() { return exports; }\n';
  let env: NodeJS.ProcessEnv;
  let libtorch: Libtorch;

  beforeAll(() => {
    shared = mkdtempSync(join(tmpdir(), 'timeseer-libs-'));
    const compiler = findCompiler(process.env)!.command[0];
    for (const name of ['torch', 'torch_cpu', 'c10']) {
      const args = ['-shared', '-x', 'c++', '/dev/null', '-o', join(shared, `lib${name}.so`)];
      expect(spawnSync(compiler, args).status).toBe(0);
    }
  });
  afterAll(() => rmSync(shared, { recursive: true, force: true }));

  beforeEach(() => {
    root = fakeLibtorch('torch');
    for (const name of readdirSync(shared))
      writeFileSync(join(root, 'lib', name), readFileSync(join(shared, name)));
    const compiler = findExecutable('c++')!;
    const CXX = script('cxx', `echo "$*" >> ${join(directory, 'compiled')}\nexec ${compiler} "$@"`);
    env = { ...process.env, LIBTORCH: root, CXX, TIMESEER_CACHE: join(directory, 'cache') };
    libtorch = findLibtorch({ env })!;
  });

  /** Counts the calls of the compiler that compile; it is also asked for its name. */
  function compilations(): number {
    const log = join(directory, 'compiled');
    const lines = existsSync(log) ? readFileSync(log, 'utf8').split('\n') : [];
    return lines.filter((line) => line.includes(' -c ')).length;
  }

  function options(text = source): { env: NodeJS.ProcessEnv; sources: string[] } {
    return { env, sources: [write('src/addon.cc', text)] };
  }

  test('builds once, then answers from the cache without a compiler', async () => {
    const addon = await buildAddon(libtorch, findCompiler(env)!, options());
    expect(addon).toMatch(/cache\/torch-9\.8\.7-[0-9a-f]{16}\/timeseer_torch\.node$/);
    expect(readdirSync(dirname(addon)).sort()).toEqual(['build.log', 'timeseer_torch.node']);
    expect(compilations()).toBe(1);
    expect(await buildAddon(libtorch, findCompiler(env)!, options())).toBe(addon);
    expect(compilations()).toBe(1);
    rmSync(join(directory, 'compiled'));
    expect(addonPath(options())).toBe(addon);
    expect(existsSync(join(directory, 'compiled'))).toBe(false);
  });

  test('compiles for the language standard and ABI of that libtorch', async () => {
    await buildAddon(libtorch, findCompiler(env)!, options());
    const log = readFileSync(join(directory, 'compiled'), 'utf8');
    expect(log).toContain('-std=c++20');
    expect(log).toContain('-D_GLIBCXX_USE_CXX11_ABI=1');
    expect(log).toContain(`-Wl,-rpath,${join(root, 'lib')}`);
  });

  test('a CUDA build takes the headers of CUDA, and says what is missing without them', async () => {
    const lines: string[] = [];
    const log = (line: string): void => {
      lines.push(line);
    };
    const compiled = (): string => readFileSync(join(directory, 'compiled'), 'utf8');
    const compiler = findCompiler(env)!;
    await buildAddon({ ...libtorch, cuda: true }, compiler, { ...options(), log });
    expect(lines.join('\n')).toMatch(/no headers of the CUDA.*CUDA_HOME.*not recorded/);
    expect(compiled()).not.toContain('TIMESEER_CUDA');
    lines.length = 0;
    await buildAddon({ ...libtorch, cuda: true, cudaIncludes: ['/some/cuda', '/some/crt'] }, compiler, {
      ...options(),
      log,
    });
    expect(lines.join('\n')).not.toMatch(/headers/);
    expect(compiled()).toMatch(/-DTIMESEER_CUDA=1 .*-isystem \/some\/cuda -isystem \/some\/crt/);
  });

  test('removes the oldest builds and what killed builds left, not the one just made', async () => {
    const cache = join(directory, 'cache');
    for (let i = 0; i < 20; i++) {
      write(`cache/torch-1.0.${i}-old/timeseer_torch.node`, '');
      utimesSync(join(cache, `torch-1.0.${i}-old`), new Date(), new Date(2001, 0, 1 + i));
    }
    const killed = `.torch-1.0.0-new.${OWNER.replace(/\d+$/, '1')}.a.tmp`;
    const running = `.torch-1.0.0-new.${OWNER}.a.tmp`;
    for (const name of [killed, running]) write(`cache/${name}/addon.o`, '');
    const addon = await buildAddon(libtorch, findCompiler(env)!, options());
    const left = readdirSync(cache).filter((name) => !name.startsWith('found-'));
    expect(existsSync(addon)).toBe(true);
    expect(left).toHaveLength(17);
    expect(left).toContain('torch-1.0.19-old');
    expect(left).not.toContain('torch-1.0.4-old');
    expect(left).toContain(running);
    expect(left).not.toContain(killed);
  });

  test('a changed source, header or libtorch asks for a new build', async () => {
    const compiler = findCompiler(env)!;
    const first = await buildAddon(libtorch, compiler, options());
    expect(() => addonPath(options(`${source}// changed\n`))).toThrow(/not built for libtorch 9\.8\.7/);
    write('src/shim/deep/header.h', '');
    expect(() => addonPath(options())).toThrow(/run `npm run setup`/);
    rmSync(join(directory, 'src/shim/deep/header.h'));
    expect(addonPath(options())).toBe(first);
    utimesSync(join(root, 'lib/libtorch.so'), new Date(), new Date(2000, 1, 1));
    expect(() => addonPath(options())).toThrow(EngineError);
  });

  test('a copy of the package at another place finds the build of this one', async () => {
    const package_ = resolve(import.meta.dirname, '../..');
    const copy = join(directory, 'copy');
    const files = (place: string): string[] =>
      readdirSync(join(package_, place), { withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => join(place, name));
    const parts = [
      'package.json',
      ...['', '/ground', '/engine/torch'].flatMap((part) => [
        ...files(`dist/src${part}`),
        ...files(`src${part}`),
      ]),
    ].concat(
      ['node-addon-api', 'node-api-headers', 'leven'].map((name) => `node_modules/${name}/package.json`),
      'node_modules/leven/index.js',
    );
    const shim = 'src/engine/torch/gloo';
    for (const part of [...parts, shim]) cpSync(join(package_, part), join(copy, part), { recursive: true });
    const module = pathToFileURL(join(copy, 'dist/src/engine/torch/build.js')).href;
    const { targetPath: fromCopy } = (await import(module)) as { targetPath: typeof targetPath };
    const compiler = findCompiler(env)!;
    const here = targetPath(libtorch, compiler, { env });
    expect(fromCopy(libtorch, compiler, { env })).toBe(here);
    const header = join(copy, 'node_modules/node-addon-api/package.json');
    writeFileSync(header, readFileSync(header, 'utf8').replace(/"version": *"/, '$&9'));
    expect(fromCopy(libtorch, compiler, { env })).not.toBe(here);
  });

  test('a fault of the source is shown, with the log that holds the rest, and nothing is left half-built', async () => {
    const failing = buildAddon(libtorch, findCompiler(env)!, options('int broken = "x";\n'));
    await expect(failing).rejects.toThrow(EngineError);
    const message = await failing.catch((error: Error) => error.message);
    expect(message).toMatch(/does not compile against libtorch 9\.8\.7/);
    expect(message).toMatch(/addon\.cc:1:.*error/);
    const log = /The whole output is in (\S+)/.exec(message)![1]!;
    expect(readFileSync(log, 'utf8')).toContain('broken');
    expect(readdirSync(join(directory, 'cache')).filter((name) => !name.endsWith('.log'))).toEqual([]);
  });

  test('a symbol that nobody defines is found at setup, not at first use', async () => {
    const text = '#include <node_api.h>\nvoid nobody();\nNAPI_MODULE_INIT() { nobody(); return exports; }\n';
    const failing = buildAddon(libtorch, findCompiler(env)!, options(text));
    await expect(failing).rejects.toThrow(/does not load against libtorch.*\n.*undefined symbol.*nobody/s);
  });

  test('two processes that build at once compile once', async () => {
    const { sources } = options();
    const program = write(
      'both.mts',
      `import { buildAddon, findCompiler } from ${JSON.stringify(resolve('src/engine/torch/build.ts'))};
       import { findLibtorch } from ${JSON.stringify(resolve('src/engine/torch/find.ts'))};
       console.log(await buildAddon(findLibtorch(), findCompiler(), { sources: ${JSON.stringify(sources)} }));`,
    );
    const run = (): Promise<string> =>
      new Promise((done) => {
        const child = spawn(process.execPath, ['--import', 'tsx', program], {
          env,
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        let output = '';
        child.stdout.on('data', (chunk: Buffer) => {
          output += chunk.toString();
        });
        child.on('close', () => done(output.trim()));
      });
    const [a, b] = await Promise.all([run(), run()]);
    expect(a).toMatch(/timeseer_torch\.node$/);
    expect(b).toBe(a);
    expect(compilations()).toBe(1);
    expect(readdirSync(join(directory, 'cache')).filter((name) => /lock|build-/.test(name))).toEqual([]);
  });

  test('addonPath says what to run where nothing was ever built', () => {
    expect(() => addonPath(options())).toThrow(
      /the engine is not built for libtorch 9\.8\.7 .*npm run setup/,
    );
    const none = { env: bare(), systemPrefixes: [], sources: options().sources };
    expect(() => addonPath(none)).toThrow(/no libtorch on this machine; run `npm run setup`/);
  });

  test('a damaged record of what was found is looked up anew', async () => {
    const addon = await buildAddon(libtorch, findCompiler(env)!, options());
    const record = readdirSync(join(directory, 'cache')).find((name) => name.startsWith('found-'))!;
    writeFileSync(join(directory, 'cache', record), '{"format": 1, "libtorch"');
    expect(addonPath(options())).toBe(addon);
  });

  test('a record that cannot be written is done without', async () => {
    const addon = await buildAddon(libtorch, findCompiler(env)!, options());
    const cache = join(directory, 'cache');
    const record = join(cache, readdirSync(cache).find((name) => name.startsWith('found-'))!);
    rmSync(record);
    mkdirSync(join(record, 'taken'), { recursive: true }); // the superuser writes everywhere but over a directory
    expect(addonPath(options())).toBe(addon);
  });
});

describe('setup', () => {
  const host: Host = { platform: 'linux', distributions: ['ubuntu', 'debian'], root: true, apt: true };
  const both = { libtorch: true, compiler: true };

  test('without permission to install it names what is missing and the commands', async () => {
    const run = setup({
      install: false,
      log: () => {},
      env: bare(),
      systemPrefixes: [],
      host: { ...host, root: false },
    });
    await expect(run).rejects.toThrow(EngineError);
    await expect(run).rejects.toThrow(/missing: libtorch .* and a C\+\+ compiler/);
    await expect(run).rejects.toThrow(
      /sudo apt-get update\n {2}sudo apt-get install -y --no-install-recommends libtorch-dev libopenblas0-openmp g\+\+/,
    );
  });

  test.each([
    [
      'Debian as root',
      { ...host, distributions: ['debian'] },
      /^apt-get update\napt-get install -y .*libtorch-dev/,
    ],
    [
      'Fedora',
      { ...host, distributions: ['fedora'], apt: false, root: false },
      /^sudo dnf install -y gcc-c\+\+\n.*pip install torch/,
    ],
    [
      'Arch',
      { ...host, distributions: ['arch'], apt: false },
      /^pacman -S --needed gcc\n.*pip install torch/,
    ],
    [
      'macOS',
      { platform: 'darwin', distributions: [], apt: false, root: false },
      /^xcode-select --install\n.*pip install torch &&/,
    ],
  ] satisfies [string, Host, RegExp][])(
    'the commands for %s are those of its package manager',
    (_name, on, commands) => {
      expect(instructions(on, both).join('\n')).toMatch(commands);
    },
  );

  test('only what is missing is asked for', () => {
    expect(instructions(host, { libtorch: false, compiler: true }).at(-1)).toMatch(
      /install-recommends g\+\+$/,
    );
    expect(instructions(host, { libtorch: true, compiler: false }).at(-1)).not.toContain('g++');
  });

  /** apt-get and apt-cache that write down what they are asked. */
  function fakeApt(candidate: string, install: string): () => string[] {
    const calls = join(directory, 'apt');
    script('bin/apt-cache', `echo "  Candidate: ${candidate}"`);
    script('bin/apt-get', `echo "$*" >> ${calls}\ncase "$*" in *install*) ${install};; esac`);
    return () =>
      readFileSync(calls, 'utf8')
        .split('\n')
        .filter((line) => line !== '');
  }

  test('as root on Debian it says what it installs, updates lists only when they are empty, then looks again', async () => {
    const log: string[] = [];
    const env = {
      ...bare(),
      PATH: `${join(directory, 'bin')}:/usr/bin:/bin`,
      CXX: script('cxx', 'echo "cxx 1"'),
    };
    script('bin/python3', 'exit 1');
    const calls = fakeApt('(none)', 'exit 0');
    const run = setup({ install: true, log: (line) => log.push(line), env, systemPrefixes: [], host });
    await expect(run).rejects.toThrow(
      /libtorch-dev libopenblas0-openmp installed, yet libtorch .* is not found/,
    );
    expect(log[0]).toMatch(/missing: libtorch .*; installing libtorch-dev libopenblas0-openmp with apt/);
    expect(calls().map((call) => call.replace('-qq -o Dpkg::Use-Pty=0 ', ''))).toEqual([
      'update',
      'install -y --no-install-recommends libtorch-dev libopenblas0-openmp',
    ]);
  });

  test('lists that are known are not updated, and a failure of apt is passed on with a way out', async () => {
    const env = {
      ...bare(),
      PATH: `${join(directory, 'bin')}:/usr/bin:/bin`,
      CXX: script('cxx', 'echo "cxx 1"'),
    };
    script('bin/python3', 'exit 1');
    const calls = fakeApt('1.13.0', 'echo "E: dpkg was interrupted" >&2; exit 100');
    const run = setup({ install: true, log: () => {}, env, systemPrefixes: [], host });
    await expect(run).rejects.toThrow(/failed:\n {2}E: dpkg was interrupted\n.*\n.*pip install torch/);
    expect(calls()).toHaveLength(1);
  });
});
