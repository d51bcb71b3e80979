import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { z } from 'zod';
import { VTA_TYPES } from '../../datasets/generators/vta.ts';
import { recordOf } from '../../eval/harness.ts';
import { metricsOf } from '../../eval/metrics.ts';
import { readRecords, writeRecords } from '../../eval/records.ts';
import { ClaimChecker, type Subject, type Verdict } from '../../src/claims/check.ts';
import { claimsOf, PHRASE_TABLES } from '../../src/claims/read.ts';
import { checkReasoning } from '../../src/claims/reasoning.ts';
import { learnClasses } from '../../src/expcot/class-profile.ts';
import type { Phrase, Slot } from '../../src/expcot/phrase.ts';
import type { ParsedAnswer } from '../../src/ground/types.ts';
import { taskKind } from '../../src/tasks/kinds.ts';
import { CLAIM_SERIES } from '../helpers/claim-series.ts';
import { machines } from '../helpers/classes.ts';
import { anomllm, nano5, vta, vtaIrregular, vtaMultivariate } from '../helpers/series.ts';

/** Claims of a text: quantity, numbers, verdict. */
function checked(text: string, subject: Subject): [string, number[], Verdict['verdict']][] {
  const { claims } = claimsOf(text, subject.names);
  const checker = new ClaimChecker(subject);
  const verdicts = claims.map((claim) => checker.check(claim));
  return claims.flatMap((claim, c) =>
    claim.quantity === 'place'
      ? []
      : [[claim.quantity, claim.numbers.map(({ value }) => value), verdicts[c]!.verdict]],
  );
}

const wave = CLAIM_SERIES.wave!;
const gaps = CLAIM_SERIES.gaps!;
const ramp = CLAIM_SERIES.ramp!;

describe('golden sentences', () => {
  const claim = z.tuple([z.string(), z.array(z.number()), z.enum(['true', 'false', 'unchecked'])]);
  const golden = z
    .object({ about: z.string() })
    .catchall(z.array(z.tuple([z.string()], claim)))
    .parse(JSON.parse(readFileSync(join(import.meta.dirname, '../golden/claims.json'), 'utf8')));
  const { about, ...lists } = golden;

  it('are at least 100, of all series', () => {
    expect(about).toContain('by hand');
    expect(Object.keys(lists).sort()).toEqual(Object.keys(CLAIM_SERIES).sort());
    expect(Object.values(lists).flat().length).toBeGreaterThanOrEqual(100);
  });

  test.each(
    Object.entries(lists).flatMap(([name, list]) =>
      list.map(([text, ...claims]) => [name, text, claims] as const),
    ),
  )('%s: %s', (name, text, claims) => {
    const sorted = (list: readonly unknown[]) => list.map((one) => JSON.stringify(one)).sort();
    expect(sorted(checked(text, CLAIM_SERIES[name]!))).toEqual(sorted(claims));
  });
});

describe('numbers', () => {
  test.each([
    ['the maximum is 1,450.5', 1450.5],
    ['the maximum is 1\u202f450', 1450],
    ['the maximum is −3.4', -3.4],
    ['the maximum is -3.4e-2', -0.034],
    ['the maximum is 1.2×10⁻³', 0.0012],
    ['the maximum is 1.2 × 10^5', 120000],
    ['the maximum is 30 %', 0.3],
    ['the maximum is .5', 0.5],
    ['the maximum is +7', 7],
  ])('%s', (text, value) => {
    expect(claimsOf(text).claims[0]?.numbers[0]?.value).toBeCloseTo(value, 12);
  });

  it('between two numbers a dash is a range, in front of one a sign', () => {
    const of = (text: string) => claimsOf(text).claims[0]!.numbers.map(({ value }) => value);
    expect(of('the period is 20–25 samples')).toEqual([20, 25]);
    expect(of('the period is 20-25 samples')).toEqual([20, 25]);
    expect(of('values range from -3 to -1')).toEqual([-3, -1]);
    expect(of('the values range from –3 to –1')).toEqual([-3, -1]);
  });

  it('stand where the text has them', () => {
    const text = 'Well. The mean is −0.25, the median 3.';
    const spans = claimsOf(text).claims.map(({ numbers }) => text.slice(...numbers[0]!.span));
    expect(spans).toEqual(['−0.25', '3']);
  });
});

describe('tolerances', () => {
  test.each([
    // The mean is 1.0329: half a unit of the last digit, and a hundredth of it.
    ['The mean is 1.', 'true'],
    ['The mean is 1.03.', 'true'],
    ['The mean is 1.0400.', 'true'],
    ['The mean is 1.05.', 'false'],
    ['The mean is about 1.2.', 'true'],
    ['The mean is about 1.6.', 'false'],
    // Half a bin at 25 cycles: 23.5 to 24.5, and half a printed unit.
    ['The period is 23.6 samples.', 'true'],
    ['The period is 23.0 samples.', 'false'],
    ['The period is about 22 samples.', 'true'],
    ['The period is 72 samples.', 'false'],
    ['The period is 8 samples.', 'false'],
    ['There are 25 cycles.', 'true'],
    ['There are 27 cycles.', 'false'],
    ['The minimum of -7 occurs at index 331.', 'true'],
    ['The minimum of -7 occurs at index 334.', 'false'],
    // Its burst, samples 300 to 360, reaches beyond the usual −1 to 3; not all that is said of most values is said of all.
    ['The values mostly stay between -1 and 3.', 'true'],
    ['Most of the counts lie between -1 and 3.', 'true'],
    ['The values mostly stay between 1 and 3.', 'false'],
    ['Nearly all values lie between -1 and 3.', 'true'],
    ['The values stay between -1 and 3.', 'false'],
    ['The values stay between -100 and 300.', 'unchecked'],
    ['Everywhere except 300 to 360 the values lie between -1 and 3.', 'unchecked'],
    ['An anomaly is visible between 300 and 355.', 'true'],
    ['An anomaly is visible between 290 and 371.', 'false'],
  ] as const)('%s %s', (text, verdict) => {
    const claims = checked(text, wave).filter(([quantity]) => quantity !== 'place');
    expect(claims.map(([, , found]) => found)).toEqual([verdict]);
  });

  it('do not take a place for a level, nor a number of standard deviations', () => {
    expect(checked('It is located in the range [300, 310].', wave)).toEqual([]);
    expect(checked('The series is at least 4 standard deviations above normal.', wave)).toEqual([]);
    expect(checked('All values are at least -7.', wave)).toEqual([['minimum', [-7], 'true']]);
  });

  it('do not take a harmonic for the period, though the spectrum is strongest there', () => {
    // Alternate beats differ: the strongest line has 20 samples, the series repeats after 40.
    const beats = Float64Array.from({ length: 800 }, (_, i) => {
      const size = Math.floor(i / 20) % 2 === 0 ? 3 : 0.6;
      return size * Math.exp(-(((i % 20) - 7) ** 2) / 3);
    });
    const subject = { channels: [beats], names: ['pulse'] };
    expect(checked('The period is 40 samples.', subject)).toEqual([['period', [40], 'true']]);
    expect(checked('The period is 80 samples.', subject)).toEqual([['period', [80], 'false']]);
    expect(checked('The period is 10 samples.', subject)).toEqual([['period', [10], 'false']]);
  });
});

test('the week beside the day is a period, but not the main one', () => {
  const load = Float64Array.from({ length: 1008 }, (_, i) => {
    const [day, week] = [(2 * Math.PI * i) / 24, (2 * Math.PI * i) / 168];
    return 45 + 20 * Math.sin(day) + 8 * Math.sin(week);
  });
  const subject = { channels: [load], names: ['load'] };
  const verdicts = ['The period is 24.', 'It repeats every 168 samples.', 'The dominant period is 168.'].map(
    (text) => checked(text, subject)[0]![2],
  );
  expect(verdicts).toEqual(['true', 'true', 'false']);
  expect(['12', '48', '84'].map((period) => checked(`The period is ${period}.`, subject)[0]![2])).toEqual([
    ...['false', 'false', 'false'],
  ]);
  const facts = { components: [], periods: [84], step: 1, range: [17, 73] as const, departures: [] };
  expect(checked('The period is 84.', { ...subject, facts })[0]![2]).toBe('true');
});

describe('claims that cannot be checked, or need not be', () => {
  test.each([
    ['The value at index 110 is 4.2.', gaps, 'unchecked'],
    ['The value at index 400 is 5.', gaps, 'false'],
    ['An anomaly lies between 390 and 520.', gaps, 'false'],
    ['An anomaly lies between 300 and 320.', gaps, 'unchecked'],
    ['The signal never exceeds 8.5.', gaps, 'true'],
    ['The mean is not 5.', gaps, 'false'],
    ['It does not rise above 6.', gaps, 'false'],
    ['The period is 33 samples.', { channels: [new Float64Array(64).fill(2)], names: ['flat'] }, 'false'],
    [
      'The z-score of the value at index 3 is 2.',
      { channels: [new Float64Array(64).fill(2)], names: ['flat'] },
      'unchecked',
    ],
    ['The mean is 2.', { channels: [new Float64Array(64).fill(Number.NaN)], names: ['none'] }, 'unchecked'],
    [
      'The mean is 2.',
      { channels: [Float64Array.of(1, Number.POSITIVE_INFINITY)], names: ['odd'] },
      'unchecked',
    ],
    ['The mean is 2.', { channels: [Float64Array.of(2)], names: ['one'] }, 'true'],
    [`The mean is 1e999.`, ramp, 'unchecked'],
  ] as const)('%s', (text, subject, verdict) => {
    expect(checked(text, subject).map(([, , found]) => found)).toEqual([verdict]);
  });
});

describe('long texts without sense are read in one pass', () => {
  const long = (piece: string, size = 2e5): string => piece.repeat(Math.ceil(size / piece.length));
  test.each([
    ['digits', long('1234567890', 1e6)],
    ['numbers', long('1 ')],
    ['numbers and commas', long('123,', 1e6)],
    ['decimals', long('3.1.')],
    ['dots', long('.', 1e6)],
    ['minus signs', long('−-–')],
    ['letters', long('a', 1e6)],
    ['hyphens', long('z-', 1e6)],
    ['nested tags', long('<think>')],
    ['brackets', long('[1, 2], ')],
    ['linking words', long('mean is of at about the ')],
    ['linking words and numbers', long('the period of about 3 to ')],
    ['lists of intervals', `Range test: outside: ${long('1 to 2, ')}`],
    ['features', `For a: ${long('the mean is 3, where a has 1 and b 2 ')}`],
    ['spaces', long(' ', 1e6)],
    ['lines', long('\n')],
    ['exponents', long('1e', 1e6)],
    ['claims', long('The mean is 3. ')],
  ])('%s', (_, text) => {
    const { claims, numbers } = claimsOf(text);
    expect(claims.length).toBeLessThanOrEqual(2000);
    expect(numbers).toBeLessThanOrEqual(500_001);
  });
});

describe('expert traces', () => {
  const generated = [
    ...[0, 2, 5].map((index) => nano5(3407, 'train', index)),
    ...VTA_TYPES.map((type) => vta(type, 3407, 'train', 1)),
    ...(['range', 'noisy-trend'] as const).map((task) => anomllm(task, 3407, 'train', 2)),
    ...VTA_TYPES.slice(0, 1).map((type) => vtaIrregular(type, 0.1, 3407, 'train', 4)),
  ];

  it('of anomalies state nothing that is false of the series, and hardly a number that is not checked', () => {
    const kind = taskKind('anomaly');
    for (const { id, values, intervals, class: label } of generated) {
      const gold = { kind: 'anomaly', class: label, intervals } as const;
      const series = { channels: [values], names: ['value'] };
      const expert = kind.expert(series, null);
      for (const text of [expert.teacher(gold).text, kind.nanoTrace(series, gold, null, {})]) {
        const found = checkReasoning(kind.parse(text, asked('anomaly', values.length, 1)), {
          ...series,
          gold,
        });
        expect({ id, wrong: found!.wrong }).toEqual({ id, wrong: [] });
        expect(found!.coverage ?? 1).toBeGreaterThanOrEqual(0.97);
        expect(found!.agreement).toBe(true);
        expect(found!.contradictions).toBe(0);
      }
      // The blind trace may conclude other intervals than the annotation has; what it says of the series is true.
      const { think } = expert.blind();
      expect(checked(think, series).filter(([, , verdict]) => verdict === 'false')).toEqual([]);
    }
  });

  it('of variates and of classes neither', () => {
    const variates = taskKind('variates');
    for (const index of [0, 3]) {
      const { channels, names, gold } = vtaMultivariate('square', 3407, 'train', index, { variates: 9 });
      if (gold.kind !== 'variates') throw new Error('no variates');
      const expert = variates.expert({ channels, names }, null);
      for (const text of [expert.teacher(gold).text, expert.blind().text]) {
        const answer = variates.parse(text, asked('variates', channels[0]!.length, channels.length));
        const found = checkReasoning(answer, { channels, names, gold })!;
        expect(found.wrong).toEqual([]);
        expect(found).toMatchObject({ agreement: true });
        expect(found.coverage!).toBeGreaterThan(0.75);
      }
    }
    const examples = machines('train', 48);
    const profile = learnClasses(examples);
    const classes = profile.classes.map(({ name }) => name);
    const kind = taskKind('classification');
    for (const { channels, names, gold } of examples.slice(0, 6)) {
      if (gold.kind !== 'classification') throw new Error('no class');
      const { text } = kind.expert({ channels, names }, profile).teacher(gold);
      const answer = kind.parse(text, { ...asked('classification', channels[0]!.length, 1), classes });
      const found = checkReasoning(answer, { channels, names, gold }, { profile, classes })!;
      expect(found).toMatchObject({ wrong: [], truth: 1, unchecked: 0, agreement: true });
      expect(found.coverage).toBe(1);
    }
  });

  it('that are told of another series state much that is false', () => {
    const [one, other] = [nano5(3407, 'train', 2), vta('seasonal', 3407, 'train', 1)];
    const kind = taskKind('anomaly');
    const { text } = kind
      .expert({ channels: [one.values], names: ['value'] }, null)
      .teacher({ kind: 'anomaly', class: one.class, intervals: one.intervals });
    const gold = { kind: 'anomaly', class: other.class, intervals: other.intervals } as const;
    const answer = kind.parse(text, asked('anomaly', 1000, 1));
    const found = checkReasoning(answer, { channels: [other.values], names: ['value'], gold })!;
    expect(found.truth!).toBeLessThan(0.3);
    expect(found.wrong.length).toBeGreaterThan(5);
    expect(found.wrong[0]).toMatchObject({
      quantity: expect.any(String),
      why: expect.stringMatching(/[0-9]/),
    });
  });
});

describe('templates of traces', () => {
  const phrases = PHRASE_TABLES.flatMap((table) =>
    Object.entries<Phrase>(table).map(([name, phrase]) => [`${phrase.quantity}: ${name}`, phrase] as const),
  );
  const contentOf = (kind: string, k: number): Slot => {
    if (kind === 'n') return 2.5 + k;
    if (kind === 'int') return 3 + k;
    if (kind === 'list') return [20, 50, 90, 120, 150].map((start) => [start, start + 7] as const);
    if (kind === 'pairs') {
      return [
        ['a', 0.25, 0.5],
        ['b', 0.75, 1.5],
      ];
    }
    return kind === 'name' || kind === 'label' ? 'Fan speed' : kind.split('|').at(-1)!;
  };

  test.each(phrases)('%s reads what it prints, where it stands', (_, phrase) => {
    const printed = phrase.print(...phrase.slots.map(({ kind }, k) => contentOf(kind, k)));
    const text = `Well. ${phrase.opening ?? ''} ${printed}; done.`;
    const read = claimsOf(text).claims.filter(({ statement }) => statement !== undefined);
    expect(read.map(({ statement }) => statement!.phrase)).toEqual([phrase]);
    const { statement, span, numbers } = read[0]!;
    expect(printed).toContain(text.slice(...span));
    expect(numbers.map(({ span: at }) => text.slice(...at))).toEqual(
      printed.match(/(?<![A-Z])-?[\d.]+/g) ?? [],
    );
    for (const [k, { kind }] of phrase.slots.entries()) {
      const content = contentOf(kind, k);
      const shown = Array.isArray(content) ? content.slice(0, 4) : content;
      const expected = typeof content === 'string' ? content.trim() : shown;
      if (kind !== 'pairs') expect(statement!.contents[k]).toEqual(expected);
    }
  });

  it('of the short style are checked against the annotation and the facts of the generator', () => {
    const values = Float64Array.from(
      { length: 200 },
      (_, i) => Math.sin(i / 4) + (i >= 100 && i < 120 ? 9 : 0),
    );
    const departure = {
      kind: 'level shift' as const,
      ...{ severity: 4.2, visibility: 5 },
      observed: [8, 9, 10] as const,
      unmodified: [-1, 0, 1] as const,
    };
    const subject: Subject = {
      ...{ channels: [values], names: ['value'], intervals: [[100, 120]] },
      facts: { components: [], periods: [25], step: 1, range: [-1, 1], departures: [departure] },
    };
    const verdictsOf = (text: string, of: Subject = subject) =>
      Object.fromEntries(checked(text, of).map(([quantity, , verdict]) => [quantity, verdict]));
    expect(verdictsOf('cycle; scan ..........()........; level shift up 4 sd')).toEqual({
      ...{ scan: 'true', departure: 'true' },
    });
    expect(verdictsOf('cycle; scan ...........()........; level shift down 4 sd')).toEqual({
      ...{ scan: 'false', departure: 'false' },
    });
    expect(verdictsOf('cycle; scan 44()444444; spike 4 sd')).toEqual({ scan: 'false', departure: 'false' });
    // Sizes hold on a ladder of 1, 2, 5 or to one digit, cycles to a fifth; a flat line that departs is no shape.
    const facts = 'pattern noise; cycle 24; trend none; middle 50; scan ..........()........';
    expect(verdictsOf(`${facts}; level shift up 5 sd`)).toEqual({
      ...{ pattern: 'true', cycle: 'true', trend: 'true', middle: 'false', scan: 'true', departure: 'true' },
    });
    expect(
      verdictsOf('pattern wave; cycle 29; trend down; middle 10; flat line 5 sd; scan ..........()........'),
    ).toEqual({
      ...{
        pattern: 'false',
        cycle: 'false',
        trend: 'false',
        middle: 'true',
        scan: 'true',
        departure: 'false',
      },
    });
    expect(verdictsOf('scan ..........()........; level shift up 9 sd')).toMatchObject({
      departure: 'false',
    });
    const { intervals: _, facts: __, ...unlabelled } = subject;
    expect(verdictsOf('cycle; scan ...........()........; level shift up 9 sd', unlabelled)).toEqual({
      ...{ scan: 'unchecked', departure: 'unchecked' },
    });
    const variates: Subject = { channels: [values, values, values], names: ['0', '1', '2'], variates: [1] };
    expect(verdictsOf('3 variates; scan .x.', variates)).toMatchObject({ scan: 'true' });
    expect(verdictsOf('3 variates; scan xx.', variates)).toMatchObject({ scan: 'false' });
  });
});

function asked(kind: 'anomaly' | 'variates' | 'classification', length: number, channels: number) {
  return { kind, length, channels, classes: [] };
}

describe('agreement of reasoning and answer', () => {
  const answer = (think: string, rest: Partial<ParsedAnswer>): ParsedAnswer => ({
    ...{ think, intervals: null, class: null, wellFormed: true, problem: null },
    ...rest,
  });
  const agreementOf = (think: string, rest: Partial<ParsedAnswer>) =>
    checkReasoning(answer(think, rest), {
      ...wave,
      gold: { kind: 'anomaly', class: 'seasonal', intervals: wave.intervals! },
    })!.agreement;

  test.each([
    ['The anomaly lies between 310 and 340.', { intervals: [[312, 341]] }, true],
    ['The anomaly lies between 310 and 340.', { intervals: [[100, 130]] }, false],
    ['The anomaly lies between 310 and 340.', { intervals: [] }, false],
    ['There is an anomaly at 310 to 340 and another spike at index 450.', { intervals: [[310, 340]] }, false],
    [
      'There are anomalies such as 310 to 340.',
      {
        intervals: [
          [310, 340],
          [450, 451],
        ],
      },
      true,
    ],
    ['An outlier may lie at 20 to 40. Conclusion: no anomaly.', { intervals: [] }, true],
    ['An outlier may lie at 20 to 40. Conclusion: no anomaly.', { intervals: [[20, 40]] }, false],
    ['The series looks normal.', { intervals: [], class: 'normal' }, true],
    ['It is a sine wave.', { intervals: [[310, 340]] }, null],
    ['Therefore the class is seasonal.', { class: 'seasonal' }, true],
    ['Therefore the class is seasonal.', { class: 'trend' }, false],
    ['Not a trend. Therefore it is seasonal rather than a contextual point.', { class: 'seasonal' }, true],
    ['Either seasonal or trend.', { class: 'trend' }, null],
    [
      'It may be a trend. Conclusion: anomalies of class seasonal at 310 to 340.',
      { class: 'seasonal', intervals: [[310, 340]] },
      true,
    ],
    ['sine wave; scan .......()...........', { intervals: [[310, 340]] }, false],
    ['Conclusion: anomalous: variates 2 and 5.', { variates: [2, 5] }, true],
    ['Conclusion: anomalous: variates 2 and 5.', { variates: [2] }, false],
    ['Conclusion: no variate is anomalous.', { variates: [] }, true],
  ] as const)('%s %j: %s', (think, rest, agrees) => {
    expect(agreementOf(think, rest)).toBe(agrees);
  });

  test.each([
    ['Therefore the answer is B.', 'B', true],
    ['Therefore the answer is A.', 'C', false],
    ['It is a sine. A sine has a period.', 'A', null],
    ['Either A or C.', 'A', null],
  ] as const)('with an option: %s %s: %s', (think, letter, agrees) => {
    const gold = { kind: 'question', class: 'A' } as never;
    const checked = checkReasoning(
      answer(think, { class: letter }),
      { ...wave, gold },
      { classes: ['A', 'B', 'C'] },
    );
    expect(checked!.agreement).toBe(agrees);
  });

  it('with a class whose underscores are spaces', () => {
    const gold = { kind: 'classification', class: 'walking' } as const;
    const said = (label: string) =>
      checkReasoning(
        answer('Conclusion: the person is walking upstairs.', { class: label }),
        { ...wave, gold },
        { classes: ['walking', 'walking_upstairs'] },
      )!.agreement;
    expect([said('walking_upstairs'), said('walking')]).toEqual([true, false]);
  });

  it('stands in the record of a response, in its file, and in the means', () => {
    const gold = { kind: 'anomaly', class: 'seasonal', intervals: wave.intervals! } as const;
    const kind = taskKind('anomaly');
    const example = { ...wave, gold, id: 'wave/test/0', task: 'wave', times: null, recording: null };
    const task = {
      parse: (text: string) => kind.parse(text, asked('anomaly', 600, 1)),
      score: () => ({ total: 0, parts: {} }),
    };
    const of = (think: string) =>
      recordOf(task, example, `<think>${think}</think><answer>[[310, 340]]</answer><class>seasonal</class>`);
    const records = [
      of('The mean is 3, the minimum is -7. So 310 to 340 is anomalous.'),
      { ...of('It looks odd from 20 to 60 somehow.'), seriesId: 'wave/test/1' },
      { ...recordOf(task, example, 'no tags'), seriesId: 'wave/test/2' },
    ];
    expect(records[0]!.reasoning).toMatchObject({
      ...{ claims: 3, true: 2, false: 1, unchecked: 0, coverage: 1, agreement: true, contradictions: 0 },
      wrong: [{ text: 'mean is 3', quantity: 'mean', why: 'mean is 1.033' }],
    });
    expect(records[2]).not.toHaveProperty('reasoning');
    const file = join(mkdtempSync(join(tmpdir(), 'claims-')), 'records.jsonl');
    writeRecords(file, records);
    expect(readRecords(file).map(({ reasoning }) => reasoning)).toEqual(
      records.map(({ reasoning }) => reasoning),
    );
    const { overall } = metricsOf(records, { resamples: 50 });
    expect(overall.claim_precision).toMatchObject({ mean: (2 / 3 + 0) / 2, n: 2 });
    expect(overall.reasoning_agreement).toMatchObject({ mean: 0.5, n: 2 });
  });

  it('is told apart from contradictions within the reasoning', () => {
    const found = (think: string) =>
      checkReasoning(answer(think, {}), { ...wave, gold: { kind: 'anomaly', class: null, intervals: [] } })!;
    expect(found('The mean is 1.03. The mean is 3.').contradictions).toBe(1);
    expect(found('The mean is 1.03. So with a mean of about 1 it is flat.').contradictions).toBe(0);
    expect(found('Between 0 and 96 the mean is 1. The mean is 1.03.').contradictions).toBe(0);
    expect(found('The value at index 6 is 3. The value at index 8 is 1.7.').contradictions).toBe(0);
    expect(
      checkReasoning(answer('  ', {}), { ...wave, gold: { kind: 'anomaly', class: null, intervals: [] } }),
    ).toBeNull();
  });
});
