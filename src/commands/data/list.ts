/** `timeseer data list`: every task that can be prepared. */
import { existsSync } from 'node:fs';
import type { Benchmark } from '../../../datasets/benchmarks/benchmark.ts';
import { BENCHMARKS, nanoFigure } from '../../../datasets/benchmarks/registry.ts';
import type { ExampleOrigin } from '../../../datasets/example-set.ts';
import { cachedFolder } from '../../../datasets/fetch.ts';
import { columns, print, printJson } from '../../ground/terminal.ts';
import { taskKind } from '../../tasks/kinds.ts';
import { command, flag } from '../options.ts';

function needs(spec: Benchmark): string {
  if (spec.needs === 'nothing') return 'no';
  if (spec.needs === 'files') return 'your files (--from)';
  return existsSync(cachedFolder(spec)) ? 'is there' : 'yes';
}

function classesText({ kind, classes, needs: files }: Benchmark): string {
  if (classes === null) return 'yours';
  const { classes: known, column } = taskKind(kind);
  // Files of labelled points say where anomalies are, not of which kind.
  const named = known === 'data' || (files === 'nothing' && known.length > 0);
  return named ? String(classes.length) : column;
}

/**
 * Lists the figures of small policies on a task: that for one channel, then that for several, where its series may have either.
 */
function smallFigures({ name: task, kind, shape }: Benchmark): string[] {
  const stated = /(\d+) channels?$/.exec(shape)?.[1];
  const counts = stated === undefined ? [1, 2] : [Number(stated)];
  return counts.map((count) => nanoFigure({ task, kind, channels: Array.from({ length: count }, String) }));
}

/** Formats the figures of a data set with these channels. */
export function figuresText(
  { task, kind, figure }: Pick<ExampleOrigin, 'task' | 'kind' | 'figure'>,
  channels: readonly string[],
): string {
  if (taskKind(kind).readsWords) return `figure: ${figure.preset} (key of a recipe: figure: task)`;
  const small = nanoFigure({ task, kind, channels });
  return `figure: ${figure.preset}; nano and small policies get ${small} (recipe keys: figure: task, figure: ${small})`;
}

export function runList({ json }: { readonly json: boolean }): void {
  if (json) {
    const tasks = BENCHMARKS.map((spec) => {
      const { name, title, kind, classes, shape, rate, figure, layout, source, needs: what } = spec;
      return {
        ...{ name, title, kind, classes, shape, rate, figure: figure.preset },
        ...{ smallFigures: smallFigures(spec), needs: what, layout },
        source: { ...source, addresses: source.addresses.map(({ url }) => url) },
      };
    });
    printJson(tasks);
    return;
  }
  const rows = BENCHMARKS.map((spec) => [
    spec.name,
    spec.title,
    classesText(spec),
    needs(spec),
    spec.source.licence,
  ]);
  const head = ['name', 'what', 'classes', 'download?', 'licence'];
  print(columns([head, ...rows]));
}

export const listCommand = command({
  command: 'list',
  describe: 'List every task: classes, download, licence',
  options: { json: flag('Print the tasks as JSON') },
  examples: [
    ['$0 data list', 'A table of all tasks'],
    ['$0 data list --json | jq ".[].name"', 'Their names, for a program'],
  ],
  handler: runList,
});
