/** Expressions and steps that drive the page of `timeseer page`. */
import type { BrowserSession } from './browser-session.ts';

export const START = 'document.body?.dataset.view === "start"';
export const BUSY = '"busy" in document.body.dataset';
/** True once the work on a file has ended. */
export const ended = (name: string): string =>
  `document.getElementById('file').textContent === ${JSON.stringify(name)} && !(${BUSY})`;

/** Text of the file that a button saves. */
export const saved = (session: BrowserSession, id: string): Promise<string> =>
  session.evaluate(`(() => {
    const make = URL.createObjectURL;
    let kept;
    URL.createObjectURL = (blob) => make.call(URL, (kept = blob));
    document.getElementById('${id}').click();
    URL.createObjectURL = make;
    return kept.text();
  })()`);
