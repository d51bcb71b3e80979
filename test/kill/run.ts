/**
 * Kills sft, train (with evaluations), a short quickstart and eval at random calls and instants, resumes them, and prints each
 * difference from the unbroken run. With --power, all or half of what was not synced is lost at each kill.
 *
 *     npm run build && npx tsx test/kill/run.ts --kills 200 --seed 7 [--power]      # about 3 s a kill on two quiet cores
 *     npm run build && npx tsx test/kill/run.ts --kills 100 --ranks 2               # about 9 s a kill
 *
 * With --ranks as many processes share the work; one of them is killed or stopped at a random instant, all have to be gone soon after, and
 * the resumed job has to end as Workers of one process do.
 *
 * Exit code 1 when a run differs, or when the control, resumed with another seed, does not differ.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Random } from '../../src/ground/random.ts';
import { Child, edit, editListed, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';
import { attempt, begun, broken, differences, type Kill, type Stage } from './harness.ts';
import { loseAt } from './power-loss.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    power: { type: 'boolean', default: false },
    ranks: { type: 'string', default: '1' },
  },
});
const total = Number(values.kills);
const ranks = Number(values.ranks);
const random = new Random(Number(values.seed), 'kill');
if (ranks > 1 && values.power) throw new RangeError('--power is about one process: leave out --ranks');
/** Kills of one run; the more, the less of it is left for the later ones. */
const CHAIN = 4;
/** More changing calls than a thread makes in a stage. */
const CALLS = { main: 90, worker: 260 } as const;

const shared = mkdtempSync(join(tmpdir(), 'timeseer-kills-'));
const recipe = join(shared, 'tiny.yaml');
const between = (low: number, high: number): number => Math.floor(low + (high - low) * random.uniform());

/** At a call of one of the threads, inside a save, or at any time. */
function draw(): Kill {
  if (ranks > 1) {
    const signal = random.uniform() < 0.8 ? 'SIGKILL' : 'SIGSTOP';
    return { after: between(300, 6000), rank: between(0, ranks), signal };
  }
  const kind = random.uniform();
  if (kind < 0.3) return between(300, 3000);
  if (kind < 0.4)
    return `worker renameSync ${between(1, 4)} ${random.uniform() < 0.5 ? '\\.old\\.tmp$' : 'checkpoint$'}`;
  const thread = kind < 0.6 ? 'main' : 'worker';
  return `${thread} * ${between(1, CALLS[thread])}`;
}

/** Reinforcement is evaluated meanwhile. */
const EVALUATED = ['rl.evalEvery=2', 'rl.evalSeries=4', 'rl.keep.last=2'].flatMap((key) => ['--set', key]);

type Name = 'sft' | 'train' | 'quickstart' | 'eval';

function stage(name: Name, out: string, processes = 1): Stage {
  const several = processes > 1 ? ['--processes', `${processes}`] : [];
  if (name === 'eval') {
    const asked = [
      '--policy',
      whole.train,
      '--count',
      '8',
      '--length',
      '400',
      '--max-tokens',
      '16',
      '--quiet',
      ...several,
    ];
    const begin = [name, ...asked, '--out', out, '--resume'];
    return { out, begin, resume: begin };
  }
  const quiet = ['--out', out, '--quiet', ...several];
  const resume = [name, '--resume', ...quiet];
  if (name === 'train') return { out, begin: [name, ...quiet], resume };
  const begin = [name, '--recipe', recipe, '--set', 'sft.samples=80', ...EVALUATED, ...quiet];
  return { out, begin, resume };
}

/** Runs a command that must come to its end. */
async function done(args: readonly string[]): Promise<void> {
  const { code, err } = await new Child(args).ended;
  if (code !== 0) throw new Error(`${args.join(' ')}: ${err}`);
}

const whole: Readonly<Record<Name, string>> = {
  sft: join(shared, 'sft'),
  train: join(shared, 'train'),
  quickstart: join(shared, 'quickstart'),
  eval: join(shared, 'eval'),
};

/** Goes through a stage with one power failure after the other, then to its end; `share` of what was not synced is there afterwards. */
async function lost(one: Stage, root: string, kills: readonly Kill[], share: number): Promise<number> {
  let count = 0;
  for (const kill of kills) {
    if (!(await loseAt(one, root, kill, () => random.uniform() < share))) break;
    count++;
  }
  await done(begun(one) ? one.resume : one.begin);
  return count;
}

let failures = 0;
let killed = 0;
function judge(what: string, different: readonly string[], wanted = false): void {
  const good = different.length > 0 === wanted;
  if (!good) failures++;
  process.stdout.write(
    `${good ? 'ok  ' : 'FAIL'} ${what}: ${different.length === 0 ? 'the same' : `differs in ${different.join(', ')}`}\n`,
  );
}

try {
  writeTinyPolicy(join(shared, 'policy'));
  writeTinyRecipe(recipe, join(shared, 'policy'), 2);
  await done(stage('sft', whole.sft).begin);
  cpSync(whole.sft, whole.train, { recursive: true });
  await done(stage('train', whole.train).begin);
  await done(stage('quickstart', whole.quickstart).begin);
  await done(stage('eval', whole.eval).begin);

  const control = stage('sft', join(shared, 'control'));
  await attempt(control.begin, 'worker renameSync 1 \\.old\\.tmp$');
  await attempt(control.begin); // puts the checkpoint back, and refuses
  const reseeded = (text: string): string => text.replace(/"seed": 42\b/, '"seed": 43');
  edit(join(control.out, 'recipe.json'), reseeded);
  editListed(join(control.out, 'sft/checkpoint/training.json'), reseeded);
  await done(control.resume);
  judge('control, random streams of another seed', differences(whole.sft, control.out), true);

  for (let run = 0; killed < total && run < total; run++) {
    const name = (['sft', 'train', 'quickstart', 'eval'] as const)[run % 4]!;
    const root = join(shared, `run-${run}`);
    const out = join(root, 'run');
    mkdirSync(root);
    if (name === 'train') cpSync(whole.sft, out, { recursive: true });
    const share = random.uniform() < 0.5 ? 0 : 0.5;
    const kills = Array.from({ length: CHAIN }, draw);
    try {
      const here = values.power
        ? await lost(stage(name, out), root, kills, share)
        : await broken(stage(name, out, ranks), kills);
      killed += here;
      judge(`${name}, ${here} kills of ${JSON.stringify(kills)}`, differences(whole[name], out));
    } catch (error) {
      judge(`${name}, ${JSON.stringify(kills)}: ${(error as Error).message}`, ['its end']);
    }
    rmSync(root, { recursive: true, force: true });
  }
} finally {
  rmSync(shared, { recursive: true, force: true });
}
process.stdout.write(`${killed} kills, ${failures} failures\n`);
process.exitCode = failures === 0 ? 0 : 1;
