import { describe, expect, it } from 'vitest';
import { analyseChannels, analyseWithGaps, blindAnomaly, teacherAnomaly } from '../../src/expcot/anomaly.ts';
import { learnClasses } from '../../src/expcot/class-profile.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { blind, teacher } from '../../src/expcot/trace.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import type { Example } from '../../src/ground/types.ts';
import { parseAnswer } from '../../src/tasks/anomaly.ts';
import { parseClassification } from '../../src/tasks/classification.ts';
import {
  agreement,
  BlindTally,
  blindTrace,
  expertOn,
  scoreBlind,
  teacherTrace,
} from '../../src/tasks/kinds.ts';
import { machines } from '../helpers/classes.ts';
import { anomllm, vtaIrregular, vtaMultivariate } from '../helpers/series.ts';

function anomalies(count: number): Example[] {
  return Array.from({ length: count }, (_, index) => {
    const { id, task, values, intervals, class: kind } = anomllm('range', 3407, 'train', index);
    const gold = { kind: 'anomaly', class: kind, intervals } as const;
    return { id, task, channels: [values], names: ['value'], times: null, gold, recording: null };
  });
}

const variates = vtaMultivariate('sawtooth', 3407, 'train', 2, { variates: 9 });
const grid: Example = {
  ...variates,
  names: variates.channels.map((_, id) => String(id)),
  times: null,
  gold: { kind: 'variates', variates: variates.variates },
  recording: null,
};
const profile = learnClasses(machines('train', 30));

describe('anomalies of a whole series of one channel', () => {
  it('are told as ever', () => {
    for (const { channels, gold } of anomalies(5)) {
      if (gold.kind !== 'anomaly') throw new Error();
      const evidence = analyse(channels[0]!);
      expect(blindAnomaly(analyseChannels(channels, ['value']), ['value']).text).toBe(blind(evidence).text);
      const taught = teacherAnomaly(
        analyseChannels(channels, ['value']),
        ['value'],
        gold.intervals,
        gold.class,
      ).text;
      expect(taught).toBe(teacher(evidence, gold.intervals, gold.class!).text);
    }
  });
});

describe('both traces of one series', () => {
  it('are those of either alone, in either order, for every kind of answer', () => {
    for (const example of [...anomalies(3), grid, ...machines('test', 2)]) {
      const alone = {
        blind: blindTrace(example, example.gold.kind, profile),
        teacher: teacherTrace(example, profile),
      };
      const one = expertOn(example, example.gold.kind, profile);
      expect({ blind: one.blind(), teacher: one.teacher(example.gold) }).toEqual(alone);
      const other = expertOn(example, example.gold.kind, profile);
      expect({ teacher: other.teacher(example.gold), blind: other.blind() }).toEqual(alone);
    }
  });

  it('are still blind where the class is none that was learned', () => {
    const [example] = machines('test', 2) as [Example];
    const strange = { kind: 'classification', class: 'never seen' } as const;
    const expert = expertOn(example, 'classification', profile);
    expect(() => expert.teacher(strange)).toThrow(ConfigError);
    expect(expert.blind()).toEqual(blindTrace(example, 'classification', profile));
  });
});

describe('the score of the blind expert', () => {
  it('counts an example without any trace as wrong', () => {
    const tally = new BlindTally();
    expect(() => tally.score()).toThrow(/no examples/);
    const gold = { kind: 'anomaly', class: 'trend', intervals: [[2, 4]] } as const;
    tally.add({ class: true, f1: 0.5 }, gold);
    tally.add({ class: false, f1: 1 }, gold);
    tally.add(null, { ...gold, class: 'normal', intervals: [] });
    tally.add({ class: null, f1: 0.5 }, { ...gold, class: null });
    expect(tally.score()).toEqual({ count: 4, accuracy: 1 / 3, chance: 2 / 3, f1: 0.5 });
  });
});

describe('anomalies with missing points', () => {
  it('say what is missing and how it was bridged, and keep indices', () => {
    const [{ channels, gold }] = anomalies(1) as [Example];
    if (gold.kind !== 'anomaly') throw new Error();
    const holed = channels[0]!.slice();
    holed.fill(Number.NaN, 3, 9);
    holed[500] = Number.NaN;
    const { evidence } = analyseWithGaps(holed);
    expect(evidence.gaps).toEqual({ missing: 7, gaps: 2, longest: 6 });
    expect(JSON.parse(JSON.stringify(evidence)).gaps).toEqual(evidence.gaps);
    const { think, text } = teacherAnomaly(
      analyseChannels([holed], ['value']),
      ['value'],
      gold.intervals,
      gold.class,
    );
    expect(think).toMatch(
      /^Observation: 7 samples are missing \(2 gaps, the longest of 6\); for the analyses alone straight lines bridge them\. The series has 1000 samples/,
    );
    expect(parseAnswer(text, 1000)).toMatchObject({ wellFormed: true, intervals: gold.intervals });
  });

  it('are told for every irregular series of the synthetic task', () => {
    for (const missing of [0.05, 0.25]) {
      const { values, intervals, class: kind } = vtaIrregular('trend', missing, 3407, 'train', 1);
      const taught = teacherAnomaly(analyseChannels([values], ['value']), ['value'], intervals, kind);
      expect(taught.think).toContain(`${400 * missing} samples are missing`);
      expect(taught.think).not.toMatch(/[<>]/);
    }
  });
});

describe('anomalies of several channels', () => {
  const [one, two] = anomalies(8).filter(
    ({ gold }) => gold.kind === 'anomaly' && gold.intervals.length > 0,
  ) as [Example, Example];
  const quiet = Float64Array.from({ length: 1000 }, (_, i) => Math.sin(i / 7));
  const gold = two.gold.kind === 'anomaly' ? two.gold : null;

  it('are told in the channel that shows them best', () => {
    const channels = [quiet, one.channels[0]!, two.channels[0]!];
    const taught = teacherAnomaly(
      analyseChannels(channels, ['a', 'b', 'c']),
      ['a', 'b', 'c'],
      gold!.intervals,
      'global point',
    );
    expect(taught.channel).toBe(2);
    expect(taught.think).toMatch(
      /^Observation: Of 3 channels the anomaly shows best in c, which is described\. /,
    );
    expect(taught.text).toContain(`<think>${taught.think}</think>`);
    const found = blindAnomaly(analyseChannels([quiet, two.channels[0]!], ['a', 'b']), ['a', 'b']);
    expect(found.channel).toBe(1);
    expect(found.class).toBe('global point');
    const nothing = blindAnomaly(analyseChannels([quiet, quiet], ['a', 'b']), ['a', 'b']);
    expect(nothing.think).toContain('Of 2 channels none departs further than a');
    expect(nothing.class).toBe('normal');
  });

  it('refuse names that would break the tags', () => {
    expect(() => blindAnomaly(analyseChannels([quiet], ['</think>']), ['</think>'])).toThrow(DataError);
    expect(() => blindAnomaly(analyseChannels([quiet], []), [])).toThrow(/1 channels with 0 names/);
  });

  it('get a kind from the evidence where the data set names none', () => {
    expect(teacherAnomaly(analyseChannels(two.channels, ['v']), ['v'], gold!.intervals, null).class).toBe(
      'global point',
    );
    expect(teacherAnomaly(analyseChannels([quiet], ['v']), ['v'], [[40, 60]], null).class).toBe(
      'contextual point',
    );
    expect(teacherAnomaly(analyseChannels(two.channels, ['v']), ['v'], [], null).class).toBe('normal');
  });
});

describe('traces of every kind', () => {
  const examples = [anomalies(1)[0]!, grid, machines('train', 2)[1]!];

  it('concludes the gold in the teacher, whatever the kind', () => {
    for (const example of examples) {
      const { text, think, answer } = teacherTrace(example, profile);
      expect(answer).toEqual(example.gold);
      expect(text.startsWith(`<think>${think}</think><`)).toBe(true);
      expect(think).not.toMatch(/[<>]/);
      if (example.gold.kind === 'anomaly') expect(parseAnswer(text, 1000).wellFormed).toBe(true);
      if (example.gold.kind === 'classification') expect(parseClassification(text).wellFormed).toBe(true);
    }
  });

  it('does not change a blind trace when the label changes', () => {
    const other = [
      { kind: 'anomaly', class: 'trend', intervals: [[1, 500]] },
      { kind: 'variates', variates: [0, 1] },
      { kind: 'classification', class: 'idle' },
    ] as const;
    examples.forEach((example, e) => {
      const relabelled: Example = { ...example, id: 'x', task: 'y', gold: other[e]! };
      const told = blindTrace(example, example.gold.kind, profile);
      expect(blindTrace(relabelled, example.gold.kind, profile)).toEqual(told);
    });
  });

  it('needs a profile for a classification', () => {
    expect(() => blindTrace(examples[2]!, 'classification', null)).toThrow(ConfigError);
    expect(() => teacherTrace(examples[2]!, null)).toThrow(/learned from the training split/);
  });
});

describe('agreement and scoreBlind', () => {
  it('compare answers by kind', () => {
    const classes = ['a', 'b'].map((name) => ({ kind: 'classification', class: name }) as const);
    expect(agreement(classes[0]!, classes[0]!)).toEqual({ class: true, f1: null });
    expect(agreement(classes[0]!, classes[1]!)).toEqual({ class: false, f1: null });
    const where = { kind: 'anomaly', class: 'trend', intervals: [[0, 4]] } as const;
    expect(agreement(where, { ...where, intervals: [[2, 8]] })).toEqual({ class: true, f1: 0.4 });
    expect(agreement(where, { ...where, class: null })).toEqual({ class: null, f1: 1 });
    const ids = { kind: 'variates', variates: [1, 3] } as const;
    expect(agreement(ids, { ...ids, variates: [3, 4, 5] })).toEqual({ class: null, f1: 0.4 });
    expect(agreement({ ...ids, variates: [] }, { ...ids, variates: [] }).f1).toBe(1);
    expect(() => agreement(ids, where)).toThrow(ConfigError);
  });

  it('score blind answers beside the most frequent class', () => {
    const test = machines('test', 32);
    const score = scoreBlind(test, profile);
    expect(score).toMatchObject({ count: 32, f1: null, chance: 11 / 32 });
    expect(score.accuracy).toBeGreaterThan(0.9);
    expect(scoreBlind([grid], null)).toEqual({ count: 1, accuracy: null, chance: null, f1: 1 });
    const nameless = anomalies(3).map((example): Example => {
      return { ...example, gold: { ...example.gold, class: null } as Example['gold'] };
    });
    expect(scoreBlind(nameless, null)).toMatchObject({ count: 3, accuracy: null, chance: null });
    expect(() => scoreBlind([], null)).toThrow(ConfigError);
  });
});
