/** The Worker that detects: a request with its bytes → the report in the form that was asked for. */
import { FORMATS } from '../explain/formats.ts';
import { reportPage } from '../explain/report-page.ts';
import { answerRequests } from '../ground/worker-thread.ts';
import { detectRecording } from '../run/detect.ts';
import { type ExplainRequest, FORMS, readExplainRequest } from './explain-request.ts';
import { EVENTS, type Outcome, outcomeOf } from './request.ts';

export interface ExplainAnswer {
  readonly type: string;
  readonly text: string;
}

/** Formats an event of a stream. */
const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** @param onProgress hears the share that is done, of a request that is read */
async function explain(request: ExplainRequest, onProgress: (share: number) => void): Promise<ExplainAnswer> {
  const { name, recording, options, since, form } = readExplainRequest(request);
  const { length } = recording.columns;
  onProgress(0);
  const onColumn = (done: number): void => onProgress(done / length);
  const { source, report } = await detectRecording(name, recording, { ...options, since, onColumn });
  if (form === 'events') {
    const events = report.findings.map((finding) => event('finding', finding));
    return { type: EVENTS, text: [...events, event('report', report)].join('') };
  }
  const text = form === 'html' ? reportPage(report, source) : FORMATS[form]!(report);
  return { type: FORMS[form], text };
}

answerRequests<ExplainRequest, Outcome<ExplainAnswer>>(async (request, { part }) => ({
  reply: await outcomeOf(() => explain(request, part)),
}));
