/** Tools for assistants over the Model Context Protocol: what `detect`, `explain`, `render` and `compare` do, on files of this machine. */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { compareAnswers, openAnswers } from '../../eval/comparison.ts';
import { DEFAULT_SEVERITY } from '../detect/detect.ts';
import { noteTexts } from '../explain/report.ts';
import type { AnomalyReport } from '../explain/schema.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { systemError } from '../ground/files.ts';
import { packageVersion } from '../ground/paths.ts';
import { say } from '../ground/terminal.ts';
import { figure } from '../plot/figure.ts';
import { encodePng } from '../plot/png.ts';
import { render } from '../plot/raster.ts';
import { type DetectRequest, detectFile, explainFile, NONE, readRequest } from '../run/detect.ts';

/** Prometheus server that the tools may query; an assistant names none, since the token would go there. */
export interface McpOptions {
  readonly prometheus: string | undefined;
  readonly tokenFile: string | undefined;
  readonly caFile: string | undefined;
}

/** Most findings of an answer. */
const MOST_FINDINGS = 50;

const text = (meaning: string) => z.string().min(1).optional().describe(meaning);

const INPUT = {
  file: text('CSV file with numeric columns, JSON lines, InfluxDB CSV or line protocol'),
  query: text('PromQL, where the server was started with --prometheus; each series is a column'),
  history: text(
    'With file: a file with earlier samples of the same columns, which show what is usual. With query: how far back to read, such as 7d; default: as far as since, else 1d',
  ),
  step: text('With query: time between two samples; default: 1m'),
  column: z.array(z.string()).optional().describe('Columns by name or number; default: all numeric ones'),
  time: text('Column of time; default: detected'),
  key: text('Column that names the series of each row'),
  select: text('Series to read: a value of the key column'),
  tz: text('Time zone, such as Europe/Berlin'),
  since: text('Only what ends after this time: 2025-03-04T14:00, or 2h for the last two hours'),
};
const DETECTION = {
  ...INPUT,
  severity: z.number().min(1).max(100).default(DEFAULT_SEVERITY).describe('Minimum severity'),
  direction: z.enum(['above', 'below', 'both']).default('both'),
};
type Asked = z.infer<z.ZodObject<typeof INPUT>> & { readonly window?: string } & Partial<
    Pick<z.infer<z.ZodObject<typeof DETECTION>>, 'severity' | 'direction'>
  >;

const json = (value: object): CallToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(value) }],
});

/** Parts of a report that answer a question. */
function summary(report: AnomalyReport): object {
  const { file, samples, from, to, headline, counts } = report;
  return {
    ...{ file, samples, from: from?.iso ?? from?.shown, to: to?.iso ?? to?.shown, headline, counts },
    ...noteTexts(report),
    findings: report.findings.slice(0, MOST_FINDINGS).map((finding) => ({
      ...{ id: finding.id, column: finding.column, kind: finding.kind, level: finding.level },
      ...{ severity: finding.severity, ongoing: finding.ongoing, duration: finding.duration },
      ...{ from: finding.from?.iso ?? finding.start, to: finding.to?.iso ?? finding.end - 1 },
      ...{ statement: finding.statement, evidence: finding.evidence },
    })),
    incidents: report.incidents.map(({ statement }) => statement),
  };
}

/** Makes the server; nothing is read before a tool is called. `idle` resolves when no call is under way. */
export function createMcpServer({ prometheus: url, tokenFile, caFile }: McpOptions): {
  readonly server: McpServer;
  readonly idle: () => Promise<unknown>;
} {
  const calls = new Set<Promise<CallToolResult>>();
  const server = new McpServer({ name: 'timeseer', version: packageVersion() });
  const requestOf = ({ file, query, history, step, ...asked }: Asked): DetectRequest => {
    const {
      column = [],
      time,
      key,
      select,
      tz,
      window,
      severity = DEFAULT_SEVERITY,
      direction = 'both',
    } = asked;
    if ((file === undefined) === (query === undefined))
      throw new ConfigError('give either file, the path of a CSV file, or query, a PromQL expression');
    if (query !== undefined && url === undefined)
      throw new ConfigError('query: start the server with --prometheus, the address to ask');
    return {
      ...{ file: file ?? query!, columns: column, time, key, select, tz, window, severity, direction },
      ...(query === undefined
        ? { history }
        : { prometheus: { url: url!, query, history, step, tokenFile, caFile } }),
    };
  };
  /** Answers a call; errors are for the assistant, which may ask better. */
  const answering =
    <Arguments>(answer: (given: Arguments) => Promise<CallToolResult>) =>
    (given: Arguments): Promise<CallToolResult> => {
      const call = answer(given).catch((error): CallToolResult => {
        const known = error instanceof TimeseerError ? error : systemError(error);
        if (known === null) say(`error: ${(error as Error).stack ?? String(error)}`);
        const message = known?.message ?? 'timeseer failed; its log says why';
        return { isError: true, content: [{ type: 'text', text: message }] };
      });
      calls.add(call);
      return call.finally(() => calls.delete(call));
    };
  server.registerTool(
    'detect',
    {
      description:
        'Finds what is unusual in the columns of a CSV file or of a PromQL query: findings by severity',
      inputSchema: DETECTION,
      annotations: { readOnlyHint: true },
    },
    answering(async ({ since, ...asked }) =>
      json(summary((await detectFile(requestOf(asked), { since })).report)),
    ),
  );
  server.registerTool(
    'what_moved',
    {
      description:
        'Ranks the columns of a CSV file or the series of a PromQL query by how far they moved in a window, against what came before it',
      inputSchema: {
        ...INPUT,
        window: z
          .string()
          .describe(
            'FROM..TO: 2025-03-04T05:00..2025-03-04T10:00, 6h..2h before the end, or 6h.. to the end',
          ),
      },
      annotations: { readOnlyHint: true },
    },
    answering(async ({ since: _, ...asked }) => json(summary((await detectFile(requestOf(asked))).report))),
  );
  server.registerTool(
    'explain',
    {
      description: 'Like detect, and writes an HTML page with plots and a JSON file; returns their paths',
      inputSchema: {
        ...DETECTION,
        out: text(
          'Path of both files without extension; default: beside the working directory, by the name of the input',
        ),
        policy: text(
          'Policy whose answers are shown beside the findings: small, or a directory; default: none',
        ),
      },
    },
    answering(async ({ since, out, policy = NONE, ...asked }) => {
      const { report, files } = await explainFile({
        ...{ detect: requestOf(asked), since, out, policy, device: undefined },
      });
      return json({ files, ...summary(report) });
    }),
  );
  server.registerTool(
    'plot',
    {
      description: 'Draws one column of a CSV file or of a PromQL query as a PNG picture',
      inputSchema: INPUT,
      annotations: { readOnlyHint: true },
    },
    answering(async ({ since, ...asked }) => {
      const { columns, time, origin } = await readRequest(requestOf(asked), since);
      if (columns.length > 1)
        throw new ConfigError(
          `column: there are ${columns.length}; choose one: ${columns.map(({ name }) => name).join(', ')}`,
        );
      const { name, values } = columns[0]!;
      const dated = time !== null && origin === 'calendar';
      const shape = figure('line', { yLabel: name.slice(0, 60), ...(dated ? { time: true } : {}) });
      const picture = await render(shape, values, dated ? time : undefined);
      const data = encodePng(picture).toString('base64');
      return { content: [{ type: 'image', data, mimeType: 'image/png' }] };
    }),
  );
  server.registerTool(
    'compare',
    {
      description:
        'Compares two sets of answers to the same series (evaluations or runs of timeseer), paired, with tests',
      inputSchema: {
        a: z.string().describe('Directory of an evaluation or run, or a file of records'),
        b: z.string().describe('The same of the answers to compare with A; differences are B − A'),
        metric: text('Metric of the tables by type and series; default: the first main one'),
      },
      annotations: { readOnlyHint: true },
    },
    answering(async ({ a, b, metric }) => {
      const { flips, ...comparison } = compareAnswers(openAnswers(a), openAnswers(b), metric);
      const listed = flips.slice(0, MOST_FINDINGS).map(({ answers: _, ...flip }) => flip);
      return json({ ...comparison, differing: flips.length, flips: listed });
    }),
  );
  return { server, idle: () => Promise.all(calls) };
}
