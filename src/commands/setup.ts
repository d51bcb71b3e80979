import { print, printJson, say } from '../ground/terminal.ts';
import { command, flag, type Given } from './options.ts';

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
