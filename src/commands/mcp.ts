/** `timeseer mcp`: tools for assistants over standard input and output. */
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { withInterrupt } from '../ground/interrupt.ts';
import { printJson, say } from '../ground/terminal.ts';
import { PROMETHEUS_TOKEN } from '../run/detect.ts';
import { command, type Given, text } from './options.ts';

/** Serves until standard input ends. What is no message is answered as JSON-RPC has it. */
async function runMcp({ prometheus, tokenFile, caFile }: Given<typeof OPTIONS>): Promise<void> {
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  const { createMcpServer } = await import('../serve/mcp.ts');
  const { server, idle } = createMcpServer({ prometheus, tokenFile, caFile });
  server.server.onerror = (error) => {
    const [code, message] =
      error instanceof SyntaxError
        ? [-32700, 'Parse error: a line of standard input is not JSON']
        : [-32600, 'Invalid request: a line of standard input is no JSON-RPC message'];
    say(`error: ${error.message.slice(0, 200)}`);
    printJson({ jsonrpc: '2.0', id: null, error: { code, message } });
  };
  await withInterrupt(async (signal) => {
    // The transport closes by itself where a line is longer than it takes.
    const closed = new Promise<void>((resolve) => {
      server.server.onclose = resolve;
    });
    const ended = once(process.stdin, 'end', { signal }).catch(() => undefined);
    await server.connect(new StdioServerTransport());
    await Promise.race([ended, closed]);
    // Calls that came last begin, and answers leave, in turns of their own.
    await nextTurn();
    if (!signal.aborted) await idle();
    await nextTurn();
    process.stdin.pause();
    await server.close();
  }, 'stopping');
}

const OPTIONS = {
  prometheus: text('Prometheus server that the tools may query, such as http://localhost:9090'),
  'token-file': text(
    `File that holds the bearer token of --prometheus (default: environment variable ${PROMETHEUS_TOKEN})`,
  ),
  'ca-file': text('Certificates (PEM) of the authorities to trust, beside the usual ones'),
};

export const mcpCommand = command({
  command: 'mcp',
  options: OPTIONS,
  examples: [
    ['claude mcp add timeseer -- npx timeseer mcp', 'For an assistant that starts the server itself'],
    ['$0 mcp --prometheus http://prometheus:9090', 'With PromQL as input of the tools'],
  ],
  epilogue:
    'Tools: detect, explain, plot, compare, what_moved. They read the files that the user of the process may read; explain alone writes.',
  handler: runMcp,
});
