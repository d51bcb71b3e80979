/** The page of `timeseer page` in a browser: expressions and steps that drive it, and a server of its files. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect } from 'vitest';
import type { AnomalyReport } from '../../src/explain/schema.ts';
import { BrowserSession } from './browser-session.ts';
import { type Call, WebServer } from './web-server.ts';

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

/** Table of two columns with a wave, of which the second stands still for a while. */
function table(): string {
  const lines = ['time,load,queue'];
  for (let i = 0; i < 700; i++) {
    const time = new Date(Date.UTC(2025, 2, 3) + i * 3_600_000).toISOString();
    const load = 100 + 30 * Math.sin((2 * Math.PI * i) / 24) + ((i * 7919) % 13) / 4;
    const queue =
      i >= 400 && i < 436 ? 21 : 20 + 5 * Math.cos((2 * Math.PI * i) / 24) + ((i * 104_729) % 7) / 9;
    lines.push([time, (i === 333 ? 320 : load).toFixed(3), queue.toFixed(3)].join(','));
  }
  return `${lines.join('\n')}\n`;
}

/** A table to explain. */
export const CSV = table();

/** Text of an element. */
export const textOf = (session: BrowserSession, id: string): Promise<string> =>
  session.evaluate(`document.getElementById('${id}').textContent`);

/** Drops a file made of `parts`, a JavaScript expression. */
export const drop = (session: BrowserSession, name: string, parts: string): Promise<unknown> =>
  session.evaluate(`(() => {
    const data = new DataTransfer();
    data.items.add(new File(${parts}, ${JSON.stringify(name)}));
    dispatchEvent(new PointerEvent('pointerdown'));
    document.getElementById('file').textContent = '';
    document.getElementById('problem').hidden = true;
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  })()`);

/** Body of the report that the page shows, and an expression that is true once it is there. */
export const IN_REPORT = 'document.getElementById("report").contentDocument.body';
export const LOADED = `${IN_REPORT}.querySelector('#findings') && ${IN_REPORT}.ownerDocument.readyState === 'complete'`;

/** Changes the text of policy.js on its way. */
export type PolicyChange = (policy: string) => string | Promise<string>;

/** The page from a server of static files, on a phone. */
export class ServedPage {
  readonly session: BrowserSession;
  readonly #server: WebServer;
  readonly #changed: { by: PolicyChange };

  private constructor(server: WebServer, session: BrowserSession, changed: { by: PolicyChange }) {
    this.#server = server;
    this.session = session;
    this.#changed = changed;
  }

  static async open(browser: string, site: string): Promise<ServedPage> {
    const server = new WebServer();
    const changed = { by: (policy: string): string | Promise<string> => policy };
    server.usual = async (response, { path }) => {
      const name = join(site, basename(path));
      const type = name.endsWith('.js') ? 'text/javascript' : 'text/html; charset=utf-8';
      response.writeHead(existsSync(name) ? 200 : 404, { 'content-type': type });
      const text = existsSync(name) ? readFileSync(name, 'utf8') : '';
      response.end(name.endsWith('policy.js') ? await changed.by(text) : text);
    };
    await server.start();
    const phone = { width: 390, height: 844, dark: true };
    try {
      const session = await BrowserSession.open(browser, `${server.url}/index.html`, START, phone);
      return new ServedPage(server, session, changed);
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  get url(): string {
    return this.#server.url;
  }

  /** Requests so far. */
  get calls(): readonly Call[] {
    return this.#server.calls;
  }

  /** Opens the page anew, with another policy.js. */
  async reload(change: PolicyChange): Promise<void> {
    this.#changed.by = change;
    await this.session.evaluate('globalThis.old = true');
    await this.session.send('Page.reload', { ignoreCache: true });
    await this.session.until(`!globalThis.old && ${START}`);
  }

  async close(): Promise<void> {
    await this.session.close();
    await this.#server.stop();
  }
}

/** Explains a table beside a policy.js that does not belong to the page, expects a note of it, and returns the report. */
export async function besideWrongPolicy(page: ServedPage, change: PolicyChange): Promise<AnomalyReport> {
  await page.reload(change);
  await drop(page.session, 'load.csv', `[${JSON.stringify(CSV)}]`);
  await page.session.until(ended('load.csv'));
  expect(await textOf(page.session, 'note')).toBe(
    'The policy was not asked: policy.js does not belong to this page; copy it again from where the page was written.',
  );
  return JSON.parse(await saved(page.session, 'json'));
}
