import { existsSync } from 'node:fs';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { ReasoningGrader } from '../../src/claims/reasoning.ts';
import { type ClassProfile, learnClasses } from '../../src/expcot/class-profile.ts';
import { ClassEvidence } from '../../src/expcot/class-trace.ts';
import { featureNames } from '../../src/expcot/features.ts';
import {
  activity,
  type NanoClassOptions,
  nanoClassTeacher,
  shortName,
  tellingFeatures,
} from '../../src/expcot/nano.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import type { Example } from '../../src/ground/types.ts';
import { BPE_CONFIG, trainBpe } from '../../src/policy/tokenizer.ts';
import { parseClassification } from '../../src/tasks/classification.ts';
import { labelOf } from '../../src/tasks/kinds.ts';
import { MACHINES, machines } from '../helpers/classes.ts';

const train = machines('train', 36);
const test = machines('test', 18);
const profile = learnClasses(train);
const evidenceOf = (example: Example, own: ClassProfile = profile) =>
  new ClassEvidence(own, example.channels);

/** The trace of the class that the rule finds most probable. */
const nanoOf = (evidence: ClassEvidence, options?: NanoClassOptions): string =>
  nanoClassTeacher(evidence, evidence.candidates[0]!.class, options);

const thinkOf = (text: string): string => /^<think>(.*)<\/think>/.exec(text)![1]!;
/** Names of the features told, without their grades. */
const namesOf = (text: string): string[] =>
  thinkOf(text)
    .split('; ')
    .at(-1)!
    .split(', ')
    .map((phrase) => phrase.replace(/ (?:(?:very )?(?:low|high)|typical|none)$/, ''));

/** Three channels: the first of the machine, one that lies where it tells the class, and a level one. */
function several(split: 'train' | 'test', count: number): Example[] {
  return machines(split, count).map((example) => {
    const wave = example.channels[0]!;
    const lying = labelOf(example.gold) === 'pump';
    return {
      ...example,
      names: ['x', 'y', 'z'],
      channels: [
        wave.map((v) => 0.1 * v + (lying ? 0.1 : 1)),
        wave.map((v) => 0.3 * v + (lying ? 1 : 0)),
        wave.map((v, i) => 0.01 * v + 0.001 * (i % 3)),
      ],
    };
  });
}

describe('short names', () => {
  it('are different words of letters and spaces for every feature', () => {
    for (const channels of [['value'], ['x', 'y', 'z'], ['a', 'b', 'c', 'd', 'e', 'f', 'g']]) {
      const names = featureNames(channels).map(({ key }) => shortName(key));
      expect(new Set(names).size).toBe(names.length);
      for (const name of names) expect(name).toMatch(/^[a-z]+(?: [a-z]+)*$/i);
    }
  });

  it('name the channels that a feature is taken of', () => {
    expect(
      ['band1', 'level7', 'roughness', 'x.tilt', 'a.b.spread2', 'the magnitude.turns'].map(shortName),
    ).toEqual(['slowest power', 'last level', 'roughness', 'x tilt', 'a.b third spread', 'magnitude turns']);
    expect(['x~y.correlation', 'all.skew', 'spread.skew'].map(shortName)).toEqual([
      'x y correlation',
      'all skew',
      'unlike skew',
    ]);
    expect(() => shortName('x.colour')).toThrow(RangeError);
  });
});

describe('activity', () => {
  it('tells by cell how much of the range its line covers', () => {
    const values = Float64Array.of(...[0, 0, 0, 0], ...[0, 1, 0, 1], ...[1, 9, 0, 4], ...[4, 4.1, 4, 4]);
    expect(activity(values, 10, 4)).toBe('.o#.');
    expect(activity(values, 10, 2)).toBe('o#');
    expect(activity(values, 1000, 4)).toBe('....');
  });

  it('counts a step between two cells for the right one, as the picture draws it', () => {
    expect(activity(Float64Array.of(0, 0, 1, 1), 1, 2)).toBe('.#');
  });

  it('is quiet for a constant, and has as many cells as asked for however short the series', () => {
    expect(activity(new Float64Array(7).fill(3), 0, 5)).toBe('.....');
    expect(activity(Float64Array.of(2), 0, 3)).toBe('...');
    expect(activity(Float64Array.of(0, 1), 1, 6)).toHaveLength(6);
  });

  it('does not depend on level and size, nor on where else a series is restless', () => {
    const values = fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 40, maxLength: 80 });
    fc.assert(
      fc.property(values, fc.constantFrom(20, 10, 3), (list, cells) => {
        const range = Math.max(...list) - Math.min(...list);
        const drawn = activity(Float64Array.from(list), range, cells);
        expect(drawn).toMatch(/^[.o#]+$/);
        expect(
          activity(
            Float64Array.from(list, (v) => 4 * v + 4096),
            4 * range,
            cells,
          ),
        ).toBe(drawn);
        const half = Math.floor(list.length / 2);
        const first = activity(
          Float64Array.from(list, (v, i) => (i < half ? v : list[half - 1]!)),
          range,
          cells,
        );
        const same = Math.floor((half * cells) / list.length);
        expect(first.slice(0, same)).toBe(drawn.slice(0, same));
        if (range > 0) expect(first.slice(same + 1)).toBe('.'.repeat(cells - same - 1));
      }),
    );
  });
});

describe('telling features', () => {
  it('are of different families, visible in a picture, the same however many follow', () => {
    const chosen = tellingFeatures(profile, 5);
    expect(chosen.length).toBe(5);
    expect(new Set(chosen.map((f) => profile.features[f]!.family)).size).toBe(5);
    for (const f of chosen) {
      expect(['level', 'spread', 'range']).not.toContain(profile.features[f]!.key);
    }
    expect(tellingFeatures(profile, 2)).toEqual(chosen.slice(0, 2));
    expect(tellingFeatures(profile, 0)).toEqual([]);
  });

  it('add what the ones before do not tell', () => {
    // Features 0 and 1 part a from b and c; the weaker feature 2 alone parts b from c.
    const feature = (key: string, family: number, ratio: number) => ({
      ...{ key, says: key, floor: null, family, ratio, within: 1 },
    });
    const own = {
      ...profile,
      features: [feature('skew', 0, 90), feature('tails', 1, 80), feature('turns', 2, 9)],
      classes: [
        [0, 0, 0],
        [9, 8, 0],
        [9, 8, 3],
      ].map((means, c) => ({ name: 'abc'[c]!, count: 5, means, spreads: [1, 1, 1] })),
    };
    expect(tellingFeatures(own, 3)).toEqual([0, 2, 1]);
  });
});

describe('nano class style', () => {
  it('reads as this for a pump', () => {
    expect(nanoClassTeacher(evidenceOf(test[1]!), 'pump')).toMatchInlineSnapshot(
      `"<think>activity; scan oo#o.#o.##o.#o.#oo##; memory high, skew high, tails high</think><class>pump</class>"`,
    );
  });

  it('gives well-formed responses with the class spelled as it is, whatever the evidence', () => {
    const spelled = new Map([
      ['fan', 'IR Negative'],
      ['pump', 'walking_upstairs'],
      ['idle', 'Off-record'],
    ]);
    const renamed = (list: readonly Example[]): Example[] =>
      list.map((example) => ({
        ...example,
        gold: { kind: 'classification', class: spelled.get(labelOf(example.gold)!)! },
      }));
    const own = learnClasses(renamed(train));
    for (const example of renamed(test)) {
      for (const gold of spelled.values()) {
        const text = nanoClassTeacher(evidenceOf(example, own), gold);
        expect(parseClassification(text)).toMatchObject({ wellFormed: true, class: gold });
        expect(thinkOf(text)).not.toMatch(/[<>\n\d]/);
      }
    }
  });

  it('says the same whatever the class', () => {
    for (const example of test) {
      const evidence = evidenceOf(example);
      const thinks = MACHINES.map((name) => thinkOf(nanoClassTeacher(evidence, name)));
      expect(new Set(thinks).size).toBe(1);
    }
  });

  it('tells the same features of every example, in grades that differ between classes', () => {
    const texts = test.map((example) => nanoClassTeacher(evidenceOf(example), labelOf(example.gold)!));
    const names = tellingFeatures(profile, 3).map((f) => shortName(profile.features[f]!.key));
    const told = new Map<string, Set<string>>();
    test.forEach((example, i) => {
      expect(namesOf(texts[i]!)).toEqual(names);
      const phrases = thinkOf(texts[i]!).split('; ').at(-1)!;
      told.set(phrases, (told.get(phrases) ?? new Set()).add(labelOf(example.gold)!));
    });
    for (const classes of told.values()) expect(classes.size).toBe(1);
  });

  it('grades rise with the value of the feature', () => {
    const own = { ...profile, features: profile.features.filter(({ key }) => key === 'turns') };
    const index = profile.features.findIndex(({ key }) => key === 'turns');
    const narrow = {
      ...own,
      classes: profile.classes.map((c) => ({ ...c, means: [c.means[index]!], spreads: [c.spreads[index]!] })),
    } as ClassProfile;
    const evidence = evidenceOf(test[0]!);
    const grades = Array.from({ length: 100 }, (_, value) => {
      const one = {
        ...evidence,
        profile: narrow,
        values: Float64Array.of(value),
      } as unknown as ClassEvidence;
      return /turns (.*)<\/think>/.exec(nanoOf(one))![1]!;
    });
    const order = ['very low', 'low', 'typical', 'high', 'very high'];
    const places = grades.map((grade) => order.indexOf(grade));
    expect(Math.min(...places)).toBeGreaterThanOrEqual(0);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(new Set(places).size).toBeGreaterThanOrEqual(3);
  });

  it('scans several channels one after the other, over one range', () => {
    const own = learnClasses(several('train', 36));
    const text = nanoClassTeacher(evidenceOf(several('test', 3)[1]!, own), 'pump');
    expect(text).toMatchInlineSnapshot(
      `"<think>x; scan .oooo.oo.o; y; scan .##o#.##o#; z; scan ..........; x memory high, x skew high, x tails high</think><class>pump</class>"`,
    );
    expect(text).toMatch(
      /^<think>x; scan [.o#]{10}; y; scan [.o#]{10}; z; scan \.{10}; [xyz ][^;]*<\/think>/,
    );
    expect(parseClassification(text)).toMatchObject({ wellFormed: true, class: 'pump' });
  });

  it('leaves the scan out for more than three channels, and says so when nothing tells', () => {
    const four = (list: readonly Example[]) =>
      list.map((e) => ({ ...e, names: [...e.names, 'w'], channels: [...e.channels, e.channels[0]!] }));
    const own = learnClasses(four(several('train', 12)));
    const evidence = evidenceOf(four(several('test', 1))[0]!, own);
    expect(nanoOf(evidence)).not.toContain('scan');
    expect(thinkOf(nanoClassTeacher(evidenceOf(test[0]!), 'fan', { features: 0 }))).toMatch(
      /^activity; scan [.o#]{20}; nothing telling$/,
    );
  });

  it('names a feature that the series does not have, and bridges missing points', () => {
    const flat = new ClassEvidence(profile, [new Float64Array(60).fill(2)]);
    const gone = profile.features.flatMap(({ key }, f) => (Number.isNaN(flat.values[f]!) ? [key] : []));
    expect(gone).toContain('pulseHeight');
    const own = {
      ...profile,
      features: profile.features.map((f) => ({ ...f, ratio: f.key === 'pulseHeight' ? 9 : 0, within: 1 })),
    };
    const evidence = new ClassEvidence(own, [new Float64Array(60).fill(2)]);
    expect(nanoOf(evidence)).toContain('; pulse height none</think>');
    const holed = test[0]!.channels[0]!.slice().fill(Number.NaN, 24, 48);
    const scan = /scan ([.o#]+)/.exec(nanoOf(new ClassEvidence(profile, [holed])))![1]!;
    expect(scan).toHaveLength(20);
  });

  it('refuses a class that the profile does not know, and a channel name that would break the tags', () => {
    expect(() => nanoClassTeacher(evidenceOf(test[0]!), 'turbine')).toThrow(ConfigError);
    const odd = several('train', 12).map((e) => ({ ...e, names: ['x', '</think>', 'z'] }));
    const evidence = evidenceOf(several('test', 1)[0]!, learnClasses(odd));
    expect(() => nanoOf(evidence)).toThrow(DataError);
  });
});

describe('grades of features in a reasoning', () => {
  it.each([
    ['one channel', train, test, 20],
    ['three channels', several('train', 36), several('test', 18), 0],
  ])(
    'are true in the trace of a series with %s, and so is its scan of activity',
    (_, known, asked, cells) => {
      const own = learnClasses(known);
      for (const example of asked) {
        const trace = nanoClassTeacher(evidenceOf(example, own), labelOf(example.gold)!);
        const grade = new ReasoningGrader(example, { profile: own, trace }).grade(thinkOf(trace));
        expect(grade).toMatchObject({ facts: 3, recalled: 3, false: 0, f1: 1 });
        expect(grade.cells.filter(({ holds }) => holds)).toHaveLength(cells);
      }
    },
  );

  it('are false where the series has another, which corrects them; without classes nothing is decided', () => {
    const [example] = several('test', 1);
    const own = learnClasses(several('train', 36));
    const trace = nanoClassTeacher(evidenceOf(example!, own), 'pump');
    const told = /x (\w+) (low|high)/.exec(trace)!;
    const wrong = thinkOf(trace).replace(told[0], `x ${told[1]} ${told[2] === 'low' ? 'high' : 'low'}`);
    const grade = new ReasoningGrader(example!, { profile: own, trace }).grade(wrong);
    expect(grade).toMatchObject({ recalled: 2, false: 1 });
    expect(grade.claims.find(({ verdict }) => verdict.verdict === 'false')).toMatchObject({
      fact: expect.stringContaining(`grade of ${told[1]}`),
      correction: `${told[1]} ${told[2]}`,
    });
    const blind = new ReasoningGrader(example!).grade(thinkOf(trace));
    expect(blind).toMatchObject({ facts: 0, false: 0, f1: null });
    expect(blind.claims.map(({ verdict }) => verdict.verdict)).toEqual(Array(3).fill('unchecked'));
  });

  it('of the magnitude and of all channels are those of their features', () => {
    const own = learnClasses(several('train', 36));
    const evidence = evidenceOf(several('test', 1)[0]!, own);
    const grader = new ReasoningGrader(several('test', 1)[0]!, { profile: own });
    const verdicts = (text: string) => grader.grade(text).claims.map(({ verdict }) => verdict.verdict);
    const words = ['very low', 'low', 'typical', 'high', 'very high'];
    const found = words.map((word) => verdicts(`magnitude turns ${word}`)[0]);
    expect(evidence.profile.features.some(({ key }) => key === 'the magnitude.turns')).toBe(true);
    expect(new Set(found)).toEqual(new Set(['true', 'false']));
    expect(verdicts('unlike turns high')).toEqual(['unchecked']);
  });
});

/** Tokens of each text under a small tokenizer trained on `corpus`, and whether each phrase is one of them. */
function tokenizerOf(corpus: readonly string[]) {
  const tokenizer = new Tokenizer(trainBpe(corpus, { vocabulary: 400 }), BPE_CONFIG);
  return (text: string): string[] =>
    tokenizer.encode(text).tokens.map((token: string) => token.replaceAll('Ġ', ' '));
}

describe('the small tokenizer', () => {
  it('makes one token of each phrase and symbol', () => {
    const texts = train.map((e) => nanoClassTeacher(evidenceOf(e), labelOf(e.gold)!));
    const encode = tokenizerOf(texts);
    const names = tellingFeatures(profile, 3).map((f) => shortName(profile.features[f]!.key));
    const grades = ['very low', 'low', 'typical', 'high', 'very high', 'none'];
    const phrases = [
      ...['activity; scan ', '.', 'o', '#', '; ', ', '],
      ...names.flatMap((name) => grades.map((grade) => `${name} ${grade}`)),
    ];
    for (const text of texts) {
      const tokens = encode(text);
      expect(tokens.join('')).toBe(text);
      // Tags, prefix, 20 symbols, three phrases (the first with its separator), two commas, the class.
      expect(tokens).toHaveLength(2 + 1 + 20 + 3 + 2 + 3);
      for (const token of tokens.slice(1, -4)) expect(phrases).toContain(token.replace(/^; /, ''));
    }
  });
});

describe.each([
  ['ctu', 250, 33, 0.7],
  ['emg', 122, 33, 0.9],
  ['har', 400, 46, 0.65],
] as const)('%s', (name, count, most, least) => {
  const directory = new URL(`../../../shared/data/timerbed/${name}`, import.meta.url).pathname;

  it.skipIf(!existsSync(directory))(
    'short traces are short, well formed, and tell most classes apart',
    () => {
      const examples: Example[] = [];
      for (const { example, split } of benchmarkNamed(name).open({ directory }).load()) {
        if (split === 'test') continue;
        examples.push(example);
        if (examples.length === count) break;
      }
      const own = learnClasses(examples);
      const texts = examples.map((e) => nanoClassTeacher(evidenceOf(e, own), labelOf(e.gold)!));
      const encode = tokenizerOf(texts);
      const votes = new Map<string, Map<string, number>>();
      texts.forEach((text, i) => {
        const gold = labelOf(examples[i]!.gold)!;
        expect(parseClassification(text)).toMatchObject({ wellFormed: true, class: gold });
        expect(encode(text).length + 1).toBeLessThanOrEqual(most); // with the end token
        const phrases = thinkOf(text).split('; ').at(-1)!;
        const own = votes.get(phrases) ?? new Map<string, number>();
        votes.set(phrases, own.set(gold, (own.get(gold) ?? 0) + 1));
      });
      // Share of examples of the most frequent class of their phrases.
      const right = [...votes.values()].reduce((sum, own) => sum + Math.max(...own.values()), 0);
      expect(right / texts.length).toBeGreaterThan(least);
    },
  );
});
