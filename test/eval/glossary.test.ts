import { expect, test } from 'vitest';
import { glossary } from '../../eval/glossary.ts';
import { SUMMARY_METRICS } from '../../eval/summary.ts';
import { KIND_NAMES, taskKind } from '../../src/tasks/kinds.ts';
import { LOG_NAMES, tagOf } from '../../src/train/glossary.ts';

const sections = glossary();

test('every name has one line of definition', () => {
  for (const { names } of sections) {
    expect(Object.keys(names).length).toBeGreaterThan(2);
    for (const { definition } of Object.values(names)) expect(definition).toMatch(/^\S[^\n]{8,}\.$/);
  }
});

test('every metric of summary.json and of each kind of answer is there', () => {
  const known = sections.flatMap(({ names }) => Object.keys(names));
  const wanted = KIND_NAMES.flatMap((kind) => Object.keys(taskKind(kind).evaluation.metrics));
  expect([...SUMMARY_METRICS, ...wanted].filter((name) => !known.includes(name))).toEqual([]);
});

test('where kinds define a name differently, both are told', () => {
  const metrics = sections.find(({ title }) => title.startsWith('Metrics of answers'))!.names;
  expect(metrics['reward']!.definition).toContain('(classification)');
  expect(metrics['reward']!.definition).toContain('(anomaly)');
});

test('no two names of a stage share a tag', () => {
  for (const names of Object.values(LOG_NAMES)) {
    const tags = Object.values(names).flatMap((entry) => tagOf(entry) ?? []);
    expect(new Set(tags).size).toBe(tags.length);
  }
});
