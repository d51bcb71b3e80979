/**
 * Many kills, at calls and instants drawn at random, in sft, train and a short quickstart; says which, and what differs at the end.
 *
 *     npm run build && npx tsx test/kill/run.ts --kills 200 --seed 7
 *
 * Exit code 1 when something differs, or when the control, whose random streams are another's after a kill, does not.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Random } from '../../src/random.ts';
import { Child, edit, editListed, writeTinyPolicy, writeTinyRecipe } from '../helpers/tiny-run.ts';
import { attempt, broken, differences, type Kill, type Stage } from './harness.ts';

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '60' }, seed: { type: 'string', default: '1' } },
});
const total = Number(values.kills);
const random = new Random(Number(values.seed), 'kill');
/** Kills of one run; the more, the less of it is left for the later ones. */
const CHAIN = 4;
/** More changing calls than a thread makes in a stage. */
const CALLS = { main: 90, worker: 260 } as const;

const shared = mkdtempSync(join(tmpdir(), 'timeseer-kills-'));
const recipe = join(shared, 'tiny.yaml');
const between = (low: number, high: number): number => Math.floor(low + (high - low) * random.uniform());

/** At a call of one of the threads, inside a save, or at any time. */
function draw(): Kill {
  const kind = random.uniform();
  if (kind < 0.3) return between(300, 3000);
  if (kind < 0.4)
    return `worker renameSync ${between(1, 4)} ${random.uniform() < 0.5 ? '\\.old\\.tmp$' : 'checkpoint$'}`;
  const thread = kind < 0.6 ? 'main' : 'worker';
  return `${thread} * ${between(1, CALLS[thread])}`;
}

function stage(name: 'sft' | 'train' | 'quickstart', out: string): Stage {
  const resume = [name, '--out', out, '--resume', '--quiet'];
  if (name === 'train') return { out, begin: [name, '--out', out, '--quiet'], resume };
  const begin = [name, '--recipe', recipe, '--set', 'sft.samples=80', '--out', out, '--quiet'];
  return { out, begin, resume };
}

/** Runs a command that must come to its end. */
async function done(args: readonly string[]): Promise<void> {
  const { code, err } = await new Child(args).ended;
  if (code !== 0) throw new Error(`${args.join(' ')}: ${err}`);
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
  writeTinyRecipe(recipe, join(shared, 'policy'));
  const whole = {
    sft: join(shared, 'sft'),
    train: join(shared, 'train'),
    quickstart: join(shared, 'quickstart'),
  };
  await done(stage('sft', whole.sft).begin);
  cpSync(whole.sft, whole.train, { recursive: true });
  await done(stage('train', whole.train).begin);
  await done(stage('quickstart', whole.quickstart).begin);

  const control = stage('sft', join(shared, 'control'));
  await attempt(control.begin, 'worker renameSync 1 \\.old\\.tmp$');
  await attempt(control.begin); // puts the checkpoint back, and refuses
  const reseeded = (text: string): string => text.replace(/"seed": 42\b/, '"seed": 43');
  edit(join(control.out, 'recipe.json'), reseeded);
  editListed(join(control.out, 'sft/checkpoint/training.json'), reseeded);
  await done(control.resume);
  judge('control, random streams of another seed', differences(whole.sft, control.out), true);

  for (let run = 0; killed < total && run < total; run++) {
    const name = (['sft', 'train', 'quickstart'] as const)[run % 3]!;
    const out = join(shared, `run-${run}`);
    if (name === 'train') cpSync(whole.sft, out, { recursive: true });
    const kills = Array.from({ length: CHAIN }, draw);
    try {
      const here = await broken(stage(name, out), kills);
      killed += here;
      judge(`${name}, ${here} kills of ${JSON.stringify(kills)}`, differences(whole[name], out));
    } catch (error) {
      judge(`${name}, ${JSON.stringify(kills)}: ${(error as Error).message}`, ['its end']);
    }
    rmSync(out, { recursive: true, force: true });
  }
} finally {
  rmSync(shared, { recursive: true, force: true });
}
process.stdout.write(`${killed} kills, ${failures} failures\n`);
process.exitCode = failures === 0 ? 0 : 1;
