import { print, printJson, say } from '../ground/terminal.ts';
import { command, flag, type Given, TRAINING_ENGINE } from './options.ts';

const OPTIONS = {
  install: flag('Install missing packages with apt (Debian, Ubuntu; as root only)', true),
  json: flag('Print the result as JSON'),
};

export const setup = command({
  command: 'setup',
  options: OPTIONS,
  examples: [
    ['$0 setup', 'Use the libtorch found, or install one'],
    ['$0 setup --no-install', 'Install nothing; list what is missing and how to get it'],
    ['LIBTORCH=/opt/libtorch $0 setup', 'Build against this libtorch'],
    ['TIMESEER_PYTHON=venv/bin/python $0 setup', 'Build against the PyTorch of this Python'],
  ],
  handler: async ({ install, json }: Given<typeof OPTIONS>) => {
    const { setup } = await import('../engine/torch/setup.ts');
    const { addon, libtorch, compiler, installed } = await setup({ install, log: say });
    const { version, origin, root, cuda } = libtorch;
    if (json) printJson({ addon, libtorch: { version, origin, root, cuda }, compiler, installed });
    else {
      const from = origin === 'python' ? 'Python' : origin;
      print(`ready: libtorch ${version} (${from}, ${root})${cuda ? ' with CUDA' : ''}`);
    }
  },
});

export const doctor = command({
  command: 'doctor',
  options: { engine: TRAINING_ENGINE, json: flag('Print the findings as JSON') },
  examples: [
    ['$0 doctor', 'Check Node, compiler, libtorch, TensorFlow.js, threads, memory, disk …'],
    ['$0 doctor --engine tfjs', 'Fail only if training over TensorFlow.js would not work'],
    ['$0 doctor --json | jq .checks', 'The checks as JSON'],
  ],
  epilogue:
    'Exit code 1 if something needed by the engine in use is missing. The tfjs engine computes by WebAssembly, which is installed with ' +
    'timeseer, or by native TensorFlow where you install @tensorflow/tfjs-node or, for a GPU, @tensorflow/tfjs-node-gpu.',
  handler: async ({ json }: { readonly json: boolean }) => {
    const { examine } = await import('../run/doctor.ts');
    const { packageVersion } = await import('../ground/paths.ts');
    const { engine, asked, checks } = await examine();
    const ok = checks.every(({ status }) => status !== 'missing');
    if (json) {
      printJson({ version: packageVersion(), ok, engine, checks });
    } else {
      const lines = checks.map(({ name, status, found, fix }) => {
        const mark = status === 'ok' ? 'ok     ' : status;
        return `${mark}  ${name.padEnd(9)} ${found}${fix === undefined ? '' : `\n${' '.repeat(19)}fix: ${fix}`}`;
      });
      const end = ok ? 'everything needed is here' : 'something needed is missing: see the fixes above';
      const by = asked ? 'asked for' : 'chosen by auto';
      print(`timeseer ${packageVersion()}\n${lines.join('\n')}\nengine ${engine} (${by}): ${end}`);
    }
    if (!ok) process.exitCode = 1;
  },
});
