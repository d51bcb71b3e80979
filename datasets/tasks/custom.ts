/** custom: the user's own files. */
import { ConfigError } from '../../src/errors.ts';
import { ANOMALY_CLASSES } from '../../src/types.ts';
import { CUSTOM_LAYOUT, openSource, type Source } from './custom-source.ts';
import type { OpenTask, SplitPlan, TaskOptions, TaskSpec } from './task.ts';
import { checkWindow } from './window.ts';

function planOf({ split, recordings }: Source): SplitPlan {
  if (split) {
    return {
      by: 'given',
      statement: 'Split of the user.',
      recordingsApart: null,
      validation: recordings ? 'recording' : 'example',
    };
  }
  return {
    by: recordings ? 'recording' : 'example',
    sizes: { train: 8, validation: 1, test: 1 },
    statement: recordings
      ? 'Examples of one recording are in one split.'
      : 'No recordings are named: every series counts as one of its own.',
    recordingsApart: recordings ? true : null,
  };
}

export const custom: TaskSpec = {
  name: 'custom',
  title: 'Your own files',
  kind: 'classification',
  source: {
    description: 'Files of the user.',
    licence: "the user's own",
    citation: null,
    addresses: [],
  },
  classes: null,
  rate: null,
  shape: 'any',
  figure: { preset: 'line', missing: 'break' },
  needs: 'files',
  layout: CUSTOM_LAYOUT,
  open({ directory, window }: TaskOptions): OpenTask {
    if (directory === null)
      throw new ConfigError(`custom: name the files with --from; it needs ${CUSTOM_LAYOUT}`);
    if (window !== undefined) checkWindow(window);
    const source = openSource(directory, window);
    const seen = new Set<string>();
    let notes: string[] = [];
    return {
      files: source.files,
      kind: source.kind,
      classes: () =>
        source.kind === 'anomaly' ? ANOMALY_CLASSES.filter((name) => seen.has(name)) : [...seen].sort(),
      parameters: window === undefined ? {} : { window },
      total: null,
      notes: () => notes,
      plan: planOf(source),
      *load() {
        notes = [];
        for (const loaded of source.load((text) => void notes.push(text))) {
          const { gold } = loaded.example;
          if (gold.kind !== 'variates') {
            // An anomaly of unnamed kind may be any of them.
            for (const name of gold.class === null ? ANOMALY_CLASSES : [gold.class]) seen.add(name);
          }
          yield loaded;
        }
      },
    };
  },
};
