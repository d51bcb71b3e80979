/** Files for containers and systemd: they name what there is, and agree with each other. No image is pulled or run. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { inside } from '../helpers/command-line.ts';
import { openService } from '../helpers/service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'src/serve/deploy');
const read = (name: string): string => readFileSync(join(FOLDER, name), 'utf8');
const names = readdirSync(FOLDER);
const units = names.filter((name) => /\.(?:service|timer)$/.test(name));

/** Values of a key of a unit. */
const settings = (unit: string, key: string): string[] =>
  [...read(unit).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value!);
/** List of a Dockerfile's instruction in JSON, the last of its name. */
const listOf = (instruction: string): string[] =>
  JSON.parse(new RegExp(`^${instruction} .*?(\\[.*\\])$`, 'm').exec(read('Dockerfile'))![1]!);

interface Compose {
  readonly services: Record<
    string,
    {
      readonly image?: string;
      readonly build?: { readonly context: string; readonly dockerfile: string };
      readonly command?: readonly string[];
      readonly ports: readonly string[];
      readonly environment?: Record<string, string>;
      readonly read_only?: boolean;
      readonly configs?: readonly { readonly source: string; readonly target: string }[];
      readonly secrets?: readonly string[];
      readonly volumes?: readonly string[];
    }
  >;
  readonly volumes: Record<string, object>;
  readonly secrets: Record<string, { readonly environment: string }>;
  readonly configs: Record<string, { readonly content?: string; readonly file?: string }>;
}
const compose = parse(read('compose.yaml')) as Compose;
const content = (config: string) => parse(compose.configs[config]!.content!);

/** Command lines of timeseer, without its name. */
const commands: [string, readonly string[]][] = [
  ['Dockerfile', listOf('CMD')],
  ['compose.yaml', compose.services['timeseer']!.command!],
  ...units
    .flatMap((unit) => settings(unit, 'ExecStart').map((line) => [unit, line.split(' ')] as const))
    .map(([unit, [env, name, ...words]]): [string, readonly string[]] => {
      expect([env, name]).toEqual(['/usr/bin/env', 'timeseer']);
      return [unit, words];
    }),
];
const optionOf = (words: readonly string[], option: string): string | undefined =>
  words[words.indexOf(option) + 1];

describe('commands', () => {
  const help = new Map<string, string>();
  beforeAll(async () => {
    for (const [, [command]] of commands) help.set(command!, (await inside(command!, '--help')).out);
  });

  test.each(commands)('of %s have options that exist', (_, [command, ...words]) => {
    const options = words.filter((word) => word.startsWith('-'));
    expect(options.length).toBeGreaterThan(2);
    for (const option of options) expect(help.get(command!)).toMatch(new RegExp(`\\s${option}\\s`));
  });

  test.each(commands)('of %s are complete and right but for what is not there', async (_, words) => {
    const given = words.map((word) =>
      word.replace(/^\$\{WEBHOOK_FORMAT\}$/, 'grafana').replace(/^\$\{\w+\}$/, 'nowhere'),
    );
    const { code, err } = await inside(...given, ...(words[0] === 'serve' ? ['--max-queue', '0'] : []));
    // The last thing that is checked: by then the others are right.
    expect(code).toBe(2);
    expect(err).toMatch(
      words[0] === 'serve'
        ? /--max-queue: expected/
        : /env:WEBHOOK_URL: the environment has no such variable/,
    );
  });

  test('variables in comments and settings are those that timeseer reads', () => {
    const sources = ['src/commands/serve.ts', 'src/commands/detect.ts', 'src/run/detect.ts']
      .map((file) => readFileSync(join(ROOT, file), 'utf8'))
      .join();
    const named = names.flatMap(
      (name) => read(name).match(/\b(?:TIMESEER_[A-Z_]+|PROMETHEUS_TOKEN)\b/g) ?? [],
    );
    expect(new Set(named)).toEqual(
      new Set(['TIMESEER_API_KEY', 'TIMESEER_WEBHOOK_TOKEN', 'PROMETHEUS_TOKEN']),
    );
    for (const name of named) expect(sources).toContain(`'${name}'`);
    expect(Object.keys(compose.services['timeseer']!.environment!)).toEqual(['TIMESEER_API_KEY']);
  });
});

describe('the image', () => {
  const file = read('Dockerfile');

  test('copies what is there, in the first stage and from it', () => {
    const [first, second] = file.split(/^FROM .*$/m).slice(1) as [string, string];
    const copied = (stage: string): string[] =>
      [...stage.matchAll(/^COPY (?:--from=build )?(.+) \S+$/gm)].flatMap(([, sources]) =>
        sources!.split(' '),
      );
    const sources = copied(first);
    expect(sources.filter((source) => !existsSync(join(ROOT, source)))).toEqual([]);
    const { include, extends: base } = JSON.parse(readFileSync(join(ROOT, 'tsconfig.build.json'), 'utf8'));
    expect(sources).toEqual(expect.arrayContaining([...include, base.replace('./', '')]));
    for (const source of copied(second).map((path) => path.replace('/app/', '')))
      expect(
        ['node_modules', 'dist'].includes(source) ||
          sources.some((from) => source === from || source.startsWith(`${from}/`)),
      ).toBe(true);
    const entry = listOf('ENTRYPOINT').at(-1)!;
    expect(existsSync(join(ROOT, entry.replace(/^dist\//, '').replace(/\.js$/, '.ts')))).toBe(true);
  });

  test('has two stages of the Node that timeseer runs on, and no rights', () => {
    expect(file.match(/^FROM node:22-slim\b/gm)).toHaveLength(2);
    expect(file).toMatch(/^USER node$/m);
    expect(compose.services['timeseer']!.read_only).toBe(true);
  });

  test('is looked at where the service tells that it lives', async () => {
    const [program, flag, script] = listOf('HEALTHCHECK') as [string, string, string];
    expect([program, flag]).toEqual(['node', '-e']);
    const service = await openService();
    const look = (port: number | string) =>
      new Promise<number>((done) => {
        const here = script.replace('127.0.0.1:8000', `127.0.0.1:${port}`);
        spawn(process.execPath, [flag, here], { stdio: 'ignore' }).on('close', (code) => done(code ?? -1));
      });
    expect(await look(service.port)).toBe(0);
    await service.close();
    expect(await look(service.port)).toBe(1);
  });
});

test('ports agree in the image, the units, the services and their configuration', async () => {
  const standard = /--port .*?\[default: (\d+)\]/s.exec((await inside('serve', '--help')).out)![1]!;
  for (const [, words] of commands.filter(([, [command]]) => command === 'serve'))
    expect(optionOf(words, '--port')).toBe(standard);
  expect(/^EXPOSE (\d+)$/m.exec(read('Dockerfile'))![1]).toBe(standard);
  expect(listOf('HEALTHCHECK').at(-1)).toContain(`:${standard}/healthz`);
  expect(compose.services['timeseer']!.ports).toEqual([`127.0.0.1:${standard}:${standard}`]);
  expect(content('prometheus').scrape_configs[0].static_configs[0].targets).toEqual([`timeseer:${standard}`]);
  const [published] = compose.services['prometheus']!.ports[0]!.split(':').slice(-1);
  expect(content('datasources').datasources[0].url).toBe(`http://prometheus:${published}`);
});

describe('compose.yaml', () => {
  test('names files, configurations, secrets and volumes that it has', () => {
    const { context, dockerfile } = compose.services['timeseer']!.build!;
    expect(resolve(FOLDER, context)).toBe(ROOT);
    expect(existsSync(join(ROOT, dockerfile))).toBe(true);
    for (const { configs = [], secrets = [], volumes = [] } of Object.values(compose.services)) {
      for (const { source } of configs) expect(compose.configs).toHaveProperty(source);
      for (const secret of secrets) expect(compose.secrets).toHaveProperty(secret);
      for (const volume of volumes) expect(compose.volumes).toHaveProperty(volume.split(':')[0]!);
    }
    for (const { file } of Object.values(compose.configs))
      if (file !== undefined) expect(names).toContain(file);
    const [{ authorization }] = content('prometheus').scrape_configs;
    expect(compose.services['prometheus']!.secrets).toContain(
      authorization.credentials_file.split('/').at(-1),
    );
    const { target } = compose.services['grafana']!.configs!.find(({ source }) => source === 'dashboard')!;
    expect(target.startsWith(`${content('dashboards').providers[0].options.path}/`)).toBe(true);
  });

  test('the dashboard asks its data source for metrics that the service has', async () => {
    const dashboard = JSON.parse(read('dashboard.json'));
    const service = await openService();
    await fetch(`${service.url}/v1/models`);
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    await service.close();
    expect(dashboard.panels.length).toBeGreaterThan(2);
    for (const { datasource, targets } of dashboard.panels) {
      expect(datasource.uid).toBe(content('datasources').datasources[0].uid);
      for (const { expr } of targets)
        for (const [metric] of expr.matchAll(/\b(?:timeseer|process)_\w+/g))
          expect(metrics).toMatch(new RegExp(`^${metric}[{ ]`, 'm'));
    }
  });
});

describe('units of systemd', () => {
  const lacks = spawnSync('systemd-analyze', ['--version']).status !== 0;
  test.skipIf(lacks)(`pass systemd-analyze verify${lacks ? ' (skipped: this machine has none)' : ''}`, () => {
    const { status, stderr } = spawnSync(
      'systemd-analyze',
      ['verify', ...units.map((unit) => join(FOLDER, unit))],
      { encoding: 'utf8' },
    );
    expect([status, stderr]).toEqual([0, '']);
  });

  test.each(units.filter((unit) => unit.endsWith('.service')))(
    '%s has no rights, and a state of its own that it names',
    (unit) => {
      for (const [key, value] of [
        ['DynamicUser', 'yes'],
        ['NoNewPrivileges', 'yes'],
        ['ProtectSystem', 'strict'],
        ['CapabilityBoundingSet', ''],
      ] as const)
        expect([key, settings(unit, key)]).toEqual([key, [value]]);
      expect(settings(unit, 'StateDirectory')).toEqual([unit.replace('.service', '')]);
      const state = /--state %S\/([\w-]+)\//.exec(read(unit));
      if (state !== null) expect(state[1]).toBe(settings(unit, 'StateDirectory')[0]);
      // V8 writes the code that it runs.
      expect(read(unit)).not.toContain('MemoryDenyWriteExecute');
    },
  );

  test('every timer has its service, and variables of commands are named above', () => {
    for (const unit of units.filter((name) => name.endsWith('.timer')))
      expect(units).toContain(unit.replace('.timer', '.service'));
    for (const unit of units)
      for (const [, name] of settings(unit, 'ExecStart')
        .join()
        .matchAll(/\$\{(\w+)\}|env:(\w+)/g))
        if (name !== undefined) expect(read(unit).split('[Unit]')[0]).toContain(name);
  });
});

test('the package has the folder', () => {
  expect(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).files).toContain('src/serve/deploy');
});
