/** `timeseer page`: writes a web page that explains CSV files in the browser. */
import { print, printJson } from '../ground/terminal.ts';
import { command, flag, type Given, required } from './options.ts';

async function runPage({ out, webgpu, json }: Given<typeof OPTIONS>): Promise<void> {
  const { writeSite } = await import('../page/site.ts');
  const files = writeSite(out, { webgpu });
  if (json) printJson({ out, files });
  else
    print(
      files.map(({ path, bytes }) => `${path}  ${(bytes / 1e6).toFixed(bytes < 1e5 ? 2 : 1)} MB`).join('\n'),
    );
}

const OPTIONS = {
  out: required('Directory to write; an earlier page there is replaced, other files never'),
  webgpu: flag('Let the policy use the graphics card where a browser has WebGPU (4 MB more)'),
  json: flag('Print the list of files as JSON'),
};

export const pageCommand = command({
  command: 'page',
  options: OPTIONS,
  examples: [
    ['$0 page --out site', 'Then open site/index.html in a browser: it needs no server and no network'],
    ['$0 page --out /var/www/anomalies', 'Serve it to others: any server of static files will do'],
  ],
  epilogue:
    'Files are read in the browser and never leave it. Findings are those of `timeseer explain`; the policy small answers in WebAssembly.',
  handler: runPage,
});
