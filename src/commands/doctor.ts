import { print, printJson } from '../ground/terminal.ts';
import { command, flag } from './options.ts';

export const doctor = command({
  command: 'doctor',
  options: { json: flag('Print the findings as JSON') },
  examples: [
    ['$0 doctor', 'Check Node, compiler, libtorch, threads, memory, disk …'],
    ['$0 doctor --json | jq .checks', 'The checks as JSON'],
  ],
  epilogue: 'Exit code 1 if something needed is missing.',
  handler: async ({ json }: { readonly json: boolean }) => {
    const { examine } = await import('../run/doctor.ts');
    const { packageVersion } = await import('../ground/paths.ts');
    const checks = examine();
    const ok = checks.every(({ status }) => status !== 'missing');
    if (json) {
      printJson({ version: packageVersion(), ok, checks });
    } else {
      const lines = checks.map(({ name, status, found, fix }) => {
        const mark = status === 'ok' ? 'ok     ' : status;
        return `${mark}  ${name.padEnd(9)} ${found}${fix === undefined ? '' : `\n${' '.repeat(19)}fix: ${fix}`}`;
      });
      const end = ok ? 'everything needed is here' : 'something needed is missing: see the fixes above';
      print(`timeseer ${packageVersion()}\n${lines.join('\n')}\n${end}`);
    }
    if (!ok) process.exitCode = 1;
  },
});
