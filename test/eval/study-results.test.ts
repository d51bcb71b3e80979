import { describe, expect, test } from 'vitest';
import { studyMarkdown, studyPage } from '../../eval/study-page.ts';
import { studyPicture } from '../../eval/study-picture.ts';
import { settingResult } from '../../eval/study-results.ts';
import { findBrowser, loadPage } from '../helpers/browser.ts';
import { decodePng } from '../helpers/png.ts';
import { madeUpResults } from '../helpers/study.ts';

const ARMS = [
  { arm: 'start', seeds: [1, 2, 3], level: 0.5 },
  { arm: 'more', seeds: [1, 2, 3], level: 0.55 },
  { arm: 'grpo', seeds: [1, 2, 3], level: 0.7, steps: 40 },
  { arm: 'same', seeds: [1, 2], level: 0.55, steps: 40, grounded: true },
  { arm: 'lone', seeds: [3], level: 0.4, steps: 40 },
  { arm: 'less', seeds: [1, 2, 3], level: 0.48 },
  { arm: 'missing', seeds: [], level: 0.4 },
];
const results = madeUpResults(ARMS);
const [few] = results.settings;
const armOf = (name: string) => few!.arms.find(({ arm }) => arm === name)!;

describe('the results of a setting', () => {
  test('have the arms that are finished, with a column for each metric, temperature, KL and entropy', () => {
    expect(few!.arms.map(({ arm }) => arm)).toEqual(['start', 'more', 'grpo', 'same', 'lone', 'less']);
    expect(few!.keys.map(({ key }) => key)).toEqual([
      ...['reward', 'reward@0.5', 'reward@1', 'format', 'class_accuracy', 'point_precision', 'point_recall'],
      ...['point_f1', 'affiliation_f1', 'kl', 'entropy'],
    ]);
    expect(few!.keys.every(({ definition }) => definition.length > 10)).toBe(true);
  });

  test('tell arms apart that differ, and not those that do not', () => {
    const { reward, kl } = armOf('grpo').toBase!;
    expect(reward!.mean).toBeCloseTo(0.15, 1);
    expect([reward!.significant, reward!.holm, kl!.significant]).toEqual([true, true, false]);
    const lone = armOf('lone').toBase!['reward']!;
    expect(lone.ci95[1]).toBeLessThan(-0.1);
    expect([lone.significant, lone.holm]).toEqual([false, false]);
    expect(armOf('less').toBase!['reward']).toMatchObject({ significant: true });
    expect(armOf('same').toBase!['reward']!.significant).toBe(false);
  });

  test('take differences over the seeds that both have', () => {
    expect(armOf('same').toBase!['reward']!.seeds).toBe(2);
    expect(armOf('lone').toBase!['reward']!.seeds).toBe(1);
    expect(armOf('more').toBase).toBeNull();
    expect(armOf('start').toBase).toBeNull();
    expect(armOf('start').toStart).toBeNull();
    expect(armOf('more').toStart!['reward']!.mean).toBeCloseTo(0.05, 1);
  });

  test('have curves of what was logged, of the arms that logged it', () => {
    const names = few!.curves.map(({ name }) => name);
    expect(names).toEqual([
      ...[
        'reward',
        'parts.format',
        'kl',
        'entropy',
        'tokens',
        'equalRewards',
        'similarity',
        'grounding.ratio',
      ],
      'validation.metrics.reward',
    ]);
    expect(few!.curves.at(-1)!.arms[0]!.step).toEqual([10, 20, 30, 40]);
    expect(few!.curves.find(({ name }) => name === 'similarity')!.arms.map(({ title }) => title)).toEqual([
      'SAME',
    ]);
    const reward = few!.curves[0]!.arms[0]!;
    expect(reward.step).toHaveLength(40);
    for (const [i, mean] of reward.mean.entries()) {
      expect(reward.low[i]! <= mean! && mean! <= reward.high[i]!).toBe(true);
    }
  });

  test('have gates: means over the steps that measured them, then over the seeds', () => {
    expect(armOf('more').gates).toBeNull();
    expect(Object.keys(armOf('grpo').gates!)).toEqual(['equalRewards']);
    const { equalRewards, ...grounded } = armOf('same').gates!;
    expect(equalRewards).toBeCloseTo(0.25, 1);
    expect(Object.keys(grounded)).toEqual(['grounding.ratio', 'grounding.goldFirst']);
    expect(grounded['grounding.ratio']).toBeCloseTo(0.05, 1);
  });

  test('leave out a column without any value, as where no reasoning could be changed', () => {
    const result = {
      ...{ version: 1 as const, evaluation: {}, kind: 'anomaly' as const, series: ['p', 'q'], tokens: null },
      answers: [{ temperature: 0, values: { reward: [1, 0], format: [1, 1] } }],
      reliance: { follows_moved: [null, null], follows_corrupted: [null, 1] },
      ...{ training: { samples: 1, steps: 0 }, seconds: { training: 1, evaluation: 1 } },
    };
    const about = { setting: 'a', title: 'A', split: 'test', samples: 1, base: 'x', start: null, named: [] };
    const cells = [{ setting: 'a', arm: 'x', seed: 1, steps: [], result }];
    const [arm] = settingResult({ ...about, arms: [{ arm: 'x', title: 'X' }], cells }, 100)!.arms;
    expect(Object.keys(arm!.values)).toEqual(['reward', 'format', 'follows_corrupted']);
  });

  test('are refused where cells answered other series, or a named column is not there', () => {
    const at = (seed: number, id: string) => ({
      ...{ setting: 'a', arm: 'x', seed, steps: [] },
      result: {
        ...{
          version: 1 as const,
          evaluation: {},
          kind: 'anomaly' as const,
          series: [id],
          tokens: null,
          reliance: null,
        },
        answers: [{ temperature: 0, values: { reward: [1], format: [1] } }],
        ...{ training: { samples: 1, steps: 0 }, seconds: { training: 1, evaluation: 1 } },
      },
    });
    const about = { setting: 'a', title: 'A', split: 'test', samples: 1, base: 'x', start: null, named: [] };
    const arms = [{ arm: 'x', title: 'X' }];
    const of = (other: string) => settingResult({ ...about, arms, cells: [at(1, 'p'), at(2, other)] }, 100);
    expect(() => of('q')).toThrow(/a\/x\/seed-2: answers other series than x\/seed-1/);
    const values = {
      reward: [1],
      format: [1],
      claim_f1: [0.5],
      reasoning_agreement: [1],
      claim_coverage: [1],
    };
    const claimed = {
      ...at(1, 'p'),
      result: { ...at(1, 'p').result, answers: [{ temperature: 0, values }] },
    };
    const { keys } = settingResult({ ...about, arms, named: ['claim_f1'], cells: [claimed] }, 100)!;
    expect(keys.map(({ key }) => key)).toEqual(['reward', 'format', 'claim_f1', 'reasoning_agreement']);
    expect(() => settingResult({ ...about, arms, named: ['claim_f1'], cells: [at(1, 'p')] }, 100)).toThrow(
      /the study names the column claim_f1, which its results do not have; columns: reward, format/,
    );
    expect(of('p')!.arms[0]!.values).toEqual({
      reward: { mean: 1, ci95: [1, 1] },
      format: { mean: 1, ci95: [1, 1] },
    });
  });
});

describe('the table in Markdown', () => {
  const text = studyMarkdown(results);

  test('marks what is significant, says how many seeds there are, and how to read it', () => {
    expect(text).toMatch(/\| GRPO \| \+\.1\d\d\\\*\\\* \[\+\.\d{3}, \+\.\d{3}\]/);
    expect(text).toMatch(/\| LONE \|.*\| 40 steps \| 4\d \| 1 \|/);
    expect(text).toMatch(/\| LONE \| −\.1\d\d† /);
    expect(text).toContain('The interval of an arm with one seed covers the series alone');
    expect(text).toContain('not corrected for the number of comparisons');
    expect(text).toContain('15 of 17 cells are finished');
  });

  test('counts a single step in the singular', () => {
    const brief = ARMS.map((one) => (one.arm === 'lone' ? { ...one, steps: 1 } : one));
    expect(studyMarkdown(madeUpResults(brief))).toMatch(/\| LONE \|.*\| 1 step \|/);
  });

  test('has rows of as many cells as its head', () => {
    const counts = text
      .split('\n\n')
      .filter((block) => block.startsWith('|'))
      .map((block) => new Set(block.split('\n').map((line) => line.split('|').length)).size);
    expect(counts).toEqual([1, 1, 1, 1]);
  });
});

describe('the primary outcome', () => {
  const named = madeUpResults(ARMS, { primary: 'affiliation_f1', margins: { reward: 0.01, kl: 0.5 } });

  test('is what the verdict is about, with the columns in which an arm is lower than the margin allows', () => {
    const text = studyMarkdown(named);
    // What these arms answer does not differ in affiliation; the fall of LESS is said only beside a difference.
    expect(text).toMatch(/^Affiliation F1, .*not significantly different: \d of 4 arms\.$/m);
    const byReward = studyMarkdown(madeUpResults(ARMS, { primary: 'reward', margins: { reward: 0.01 } }));
    expect(byReward).toMatch(/below: LESS −\.0\d\d\\\*\S* \(at lower reward, greedy −\.0\d\d/);
    expect(byReward).toMatch(/above MORE: GRPO \+\.1\d\d\\\*\\\*;/);
  });

  test('is drawn beside the reward, as a picture that is the same every time', async () => {
    const png = (await studyPicture(named))!;
    const { width, height, data } = decodePng(png);
    expect(width).toBeGreaterThan(2 * height);
    expect(new Set(data).size).toBeGreaterThan(50);
    expect((await studyPicture(named))!.equals(png)).toBe(true);
    expect((await studyPicture(results))!.equals(png)).toBe(false);
    expect(await studyPicture(madeUpResults([{ arm: 'more', seeds: [], level: 0 }]))).toBeNull();
  });
});

describe('the page of a study', () => {
  const page = studyPage(results, 'seeds: [1]\n# <script>alert(1)</script>\n');

  test('escapes what it shows, and says what is above and below the base', () => {
    expect(page).not.toContain('<script>alert');
    expect(page).toMatch(
      /above MORE: GRPO \+\.1\d\d\*\*; below: LESS .*; not significantly different: 2 of 4 arms/,
    );
    expect(page).toContain('2 are still to come');
  });

  test('without a finished cell is a page still', () => {
    const none = madeUpResults([{ arm: 'more', seeds: [], level: 0 }]);
    expect(studyPage(none, '')).toContain('0 of 2 runs are finished');
    expect(studyMarkdown(none)).toContain('0 of 2 cells are finished');
  });

  const browser = findBrowser();
  test.skipIf(browser === null)(
    'draws its curves, and switches those of an arm off',
    { timeout: 60_000 },
    () => {
      const click = "<script>document.querySelector('.legend button').click()</script>";
      const open = page.replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, '');
      const { dom, complaints } = loadPage(browser!, {
        'study.html': open.replace('</body>', `${click}</body>`),
      });
      expect(complaints).toEqual([]);
      expect(dom).toContain('data-curves="drawn"');
      expect(dom.match(/class="scatterlayer/g)!.length).toBe(9);
      expect(dom).toContain('aria-pressed="false"');
      // Three arms with a band and a curve each; one of them off.
      const [first] = dom.split('id="few-curve-1"');
      expect(first!.match(/class="trace scatter/g)).toHaveLength(6);
    },
  );
});
