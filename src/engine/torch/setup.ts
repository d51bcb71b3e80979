/**
 * Setup of the torch engine: finds libtorch and a compiler, installs them on request (Debian and Ubuntu, as
 * root) or prints the commands, and builds the addon.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { EngineError } from '../../ground/errors.ts';
import { buildAddon, findCompiler } from './build.ts';
import { type FindOptions, findExecutable, findLibtorch, type Libtorch } from './find.ts';
import { chosenKernel } from './kernel.ts';

interface SetupOptions extends FindOptions {
  /** True if packages may be installed; otherwise the command is only printed. */
  readonly install: boolean;
  readonly log: (line: string) => void;
  /** The default is this machine. */
  readonly host?: Host;
}

interface SetupResult {
  readonly addon: string;
  readonly libtorch: Libtorch;
  /** First line of the compiler's `--version`. */
  readonly compiler: string;
  /** Packages that were installed; empty when everything was there. */
  readonly installed: readonly string[];
}

/** Facts that decide how packages are installed on this machine. */
export interface Host {
  readonly platform: NodeJS.Platform;
  /** ID and ID_LIKE of /etc/os-release: ['ubuntu', 'debian']. */
  readonly distributions: readonly string[];
  readonly root: boolean;
  readonly apt: boolean;
}

const LIBTORCH_PACKAGES = ['libtorch-dev', 'libopenblas0-openmp'];
const COMPILER_PACKAGES = ['g++'];

export function thisHost(env: NodeJS.ProcessEnv = process.env): Host {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '';
  const distributions = [...release.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)].flatMap((match) =>
    match[1]!.split(/\s+/),
  );
  return {
    platform: process.platform,
    distributions,
    root: process.getuid?.() === 0,
    apt: findExecutable('apt-get', env) !== null,
  };
}

function usesApt(host: Host): boolean {
  return host.apt && host.distributions.some((name) => name === 'debian' || name === 'ubuntu');
}

/** The commands that a person runs to get what is missing, one per line. */
export function instructions(host: Host, missing: { libtorch: boolean; compiler: boolean }): string[] {
  if (usesApt(host)) {
    const packages = [
      ...(missing.libtorch ? LIBTORCH_PACKAGES : []),
      ...(missing.compiler ? COMPILER_PACKAGES : []),
    ];
    const sudo = host.root ? '' : 'sudo ';
    return [
      `${sudo}apt-get update`,
      `${sudo}apt-get install -y --no-install-recommends ${packages.join(' ')}`,
    ];
  }
  const sudo = host.root ? '' : 'sudo ';
  const is = (...names: string[]): boolean => host.distributions.some((name) => names.includes(name));
  const compiler =
    host.platform === 'darwin'
      ? 'xcode-select --install'
      : is('fedora', 'rhel', 'centos')
        ? `${sudo}dnf install -y gcc-c++`
        : is('arch')
          ? `${sudo}pacman -S --needed gcc`
          : is('alpine')
            ? `${sudo}apk add g++`
            : 'install a C++ compiler (g++ or clang++)';
  return [...(missing.compiler ? [compiler] : []), ...(missing.libtorch ? [pipCommand(host)] : [])];
}

function pipCommand(host: Host): string {
  const index = host.platform === 'darwin' ? '' : ' --index-url https://download.pytorch.org/whl/cpu';
  return (
    `python3 -m venv ~/.timeseer-torch && ~/.timeseer-torch/bin/pip install torch${index} && ` +
    'export TIMESEER_PYTHON=~/.timeseer-torch/bin/python'
  );
}

function runApt(args: readonly string[], env: NodeJS.ProcessEnv): string | null {
  const run = spawnSync('apt-get', ['-qq', '-o', 'Dpkg::Use-Pty=0', ...args], {
    encoding: 'utf8',
    env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 64 * 1024 * 1024,
  });
  if (run.status === 0) return null;
  return `${run.stderr ?? ''}${run.stdout ?? ''}${run.error?.message ?? ''}`.trim();
}

/** Returns true if the package lists have a version of every package. */
function known(packages: readonly string[], env: NodeJS.ProcessEnv): boolean {
  return packages.every((name) => {
    const run = spawnSync('apt-cache', ['policy', name], { encoding: 'utf8', env });
    return run.status === 0 && /Candidate: (?!\(none\))\S/.test(run.stdout);
  });
}

/** Installs with apt-get; throws EngineError with apt's own last words. */
function installWithApt(packages: readonly string[], host: Host, options: SetupOptions): void {
  const env = options.env ?? process.env;
  if (!known(packages, env)) {
    options.log('apt-get update (the package lists do not know what is needed)');
    const failure = runApt(['update'], env);
    if (failure !== null) options.log(`apt-get update: ${failure}`);
  }
  const arguments_ = ['install', '-y', '--no-install-recommends', ...packages];
  options.log(`apt-get ${arguments_.join(' ')}`);
  let failure = runApt(arguments_, env);
  if (failure !== null && /404|Unable to fetch|Failed to fetch/i.test(failure)) {
    options.log('apt-get update (the package lists are out of date)');
    failure = runApt(['update'], env) ?? runApt(arguments_, env);
  }
  if (failure !== null) {
    throw new EngineError(
      `apt-get ${arguments_.join(' ')} failed:\n  ${failure.split('\n').slice(-5).join('\n  ')}\n` +
        `If these packages do not exist here, use PyTorch instead:\n  ${pipCommand(host)}\n` +
        'then run `npm run setup` again',
    );
  }
}

/**
 * Finds, installs if allowed, builds; a second call finds everything cached. @throws EngineError with the
 * missing parts and commands
 */
export async function setup(options: SetupOptions): Promise<SetupResult> {
  const env = options.env ?? process.env;
  if (process.platform === 'win32') {
    throw new EngineError('the torch engine does not build on Windows; use WSL 2: https://aka.ms/wsl');
  }
  let libtorch = findLibtorch(options);
  let compiler = findCompiler(env);
  const installed: string[] = [];
  if (libtorch === null || compiler === null) {
    const host = options.host ?? thisHost(env);
    const missing = { libtorch: libtorch === null, compiler: compiler === null };
    const what = [
      ...(missing.libtorch ? ['libtorch (the C++ library of PyTorch, which computes)'] : []),
      ...(missing.compiler ? ['a C++ compiler (which builds the bridge to it)'] : []),
    ].join(' and ');
    if (!options.install || !host.root || !usesApt(host)) {
      throw new EngineError(
        `missing: ${what}. Run\n  ${instructions(host, missing).join('\n  ')}\nand then \`npm run setup\` again`,
      );
    }
    installed.push(
      ...(missing.libtorch ? LIBTORCH_PACKAGES : []),
      ...(missing.compiler ? COMPILER_PACKAGES : []),
    );
    options.log(`missing: ${what}; installing ${installed.join(' ')} with apt`);
    installWithApt(installed, host, options);
    libtorch = findLibtorch(options);
    compiler = findCompiler(env);
    if (libtorch === null || compiler === null) {
      throw new EngineError(
        `${installed.join(' ')} installed, yet ${what} is not found; run \`npx timeseer doctor\``,
      );
    }
  }
  const addon = await buildAddon(libtorch, compiler, options);
  const kernel = chosenKernel(addon);
  if (kernel !== null) {
    options.log(
      `OpenBLAS does not choose the right kernels for this processor; those for ${kernel} are used`,
    );
  }
  return { addon, libtorch, compiler: compiler.version, installed };
}
