/** A page in a headless Chromium that can be clicked, typed at and looked at: the DevTools protocol over a pipe. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

type Message = {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
};

export interface SessionOptions {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  /** WebGPU, computed on the processor. */
  readonly webgpu?: boolean;
}

/** Virtual key codes of the keys that are pressed in tests. */
const KEYS: Readonly<Record<string, number>> = {
  Enter: 13,
  Escape: 27,
  ArrowUp: 38,
  ArrowDown: 40,
  Home: 36,
  End: 35,
  Tab: 9,
};

export class BrowserSession {
  /** Addresses that the page asked for, the page itself aside. */
  readonly requests: string[] = [];
  /** Errors and warnings of the console, and exceptions. */
  readonly complaints: string[] = [];
  readonly #process: ChildProcess;
  readonly #directory: string;
  readonly #waiting = new Map<
    number,
    { resolve: (result: Record<string, unknown>) => void; reject: (error: Error) => void }
  >();
  #events: ((message: Message) => void)[] = [];
  #session: string | undefined;
  #sent = 0;

  private constructor(browser: string, webgpu: boolean) {
    this.#directory = mkdtempSync(join(tmpdir(), 'session-'));
    this.#process = spawn(
      browser,
      [
        ...[
          '--headless',
          '--no-sandbox',
          ...(webgpu ? ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'] : ['--disable-gpu']),
          '--disable-quic',
          '--no-first-run',
          '--disable-sync',
        ],
        ...['--disable-background-networking', '--disable-component-update', '--hide-scrollbars'],
        '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
        `--user-data-dir=${join(this.#directory, 'profile')}`,
        '--remote-debugging-pipe',
        'about:blank',
      ],
      // A group of its own, so that its helpers end with it.
      { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], detached: true },
    );
    this.#process.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`${browser} ended with ${code}`));
    });
    let rest = '';
    const output = this.#process.stdio[4] as Readable;
    output.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split('\0');
      rest = parts.pop()!;
      for (const part of parts) this.#receive(JSON.parse(part) as Message);
    });
  }

  #receive(message: Message): void {
    if (message.id === undefined) {
      for (const hear of [...this.#events]) hear(message);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error === undefined) waiting?.resolve(message.result ?? {});
    else waiting?.reject(new Error(message.error.message));
  }

  /** One command of the protocol. */
  send(
    method: string,
    params: Record<string, unknown> = {},
    sessionId = this.#session,
  ): Promise<Record<string, unknown>> {
    const id = ++this.#sent;
    const text = JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) });
    (this.#process.stdio[3] as Writable).write(`${text}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /**
   * Loads a page, given as its text or its address, and waits until `ready`, a JavaScript expression, is true. Requests of its Workers
   * count, too.
   * @throws Error after 30 s
   */
  static async open(
    browser: string,
    page: string,
    ready: string,
    { width = 1400, height = 900, dark = false, webgpu = false }: SessionOptions = {},
  ): Promise<BrowserSession> {
    const session = new BrowserSession(browser, webgpu);
    try {
      let address = page;
      if (!/^(?:file|http):/.test(page)) {
        const file = join(session.#directory, 'page.html');
        writeFileSync(file, page);
        address = `file://${file}`;
      }
      const { targetInfos } = (await session.send('Target.getTargets')) as {
        targetInfos: { targetId: string; type: string }[];
      };
      const { targetId } = targetInfos.find(({ type }) => type === 'page')!;
      const attached = await session.send('Target.attachToTarget', { targetId, flatten: true });
      session.#session = attached['sessionId'] as string;
      session.#events.push(({ method, params }) => {
        const of = params as {
          request?: { url: string };
          entry?: { level: string; text: string };
          type?: string;
          exceptionDetails?: { text: string; exception?: { description?: string } };
          sessionId?: string;
        };
        if (method === 'Target.attachedToTarget') {
          for (const command of ['Network.enable', 'Runtime.enable', 'Runtime.runIfWaitingForDebugger'])
            session.send(command, {}, of.sessionId);
        }
        if (method === 'Network.requestWillBeSent' && of.request!.url !== address)
          session.requests.push(of.request!.url);
        if (method === 'Log.entryAdded' && of.entry!.level !== 'info' && of.entry!.level !== 'verbose')
          session.complaints.push(of.entry!.text);
        if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(of.type!))
          session.complaints.push(JSON.stringify(params));
        if (method === 'Runtime.exceptionThrown')
          session.complaints.push(of.exceptionDetails!.exception?.description ?? of.exceptionDetails!.text);
      });
      for (const domain of ['Network', 'Log', 'Runtime', 'Page']) await session.send(`${domain}.enable`);
      const workers = { autoAttach: true, waitForDebuggerOnStart: true, flatten: true };
      await session.send('Target.setAutoAttach', workers);
      await session.send('Emulation.setDeviceMetricsOverride', {
        width,
        height,
        deviceScaleFactor: 1,
        mobile: width < 600,
      });
      await session.send('Emulation.setEmulatedMedia', {
        features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }],
      });
      await session.send('Page.navigate', { url: address });
      await session.until(ready);
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** The value of a JavaScript expression in the page, which must be JSON. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = (await this.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })) as { result: { value: T }; exceptionDetails?: { exception?: { description?: string } } };
    if (exceptionDetails !== undefined)
      throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /** Waits until an expression is true. @throws Error if it is not, after `seconds` */
  async until(expression: string, seconds = 30): Promise<void> {
    for (let left = 20 * seconds; left > 0; left--) {
      try {
        if (await this.evaluate<boolean>(`Boolean(${expression})`)) return;
      } catch (error) {
        if (left === 1) throw error; // the page may be being replaced
      }
      await sleep(50);
    }
    throw new Error(`not within ${seconds} s: ${expression}; ${this.complaints.join('; ')}`);
  }

  async press(key: string): Promise<void> {
    const code = {
      key,
      code: key,
      windowsVirtualKeyCode: KEYS[key]!,
      ...(key === 'Enter' ? { text: '\r' } : {}),
    };
    await this.send('Input.dispatchKeyEvent', { type: key === 'Enter' ? 'keyDown' : 'rawKeyDown', ...code });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...code, text: undefined });
  }

  /** Presses the mouse at one place, moves it to another, and lets go. */
  async drag(from: readonly [x: number, y: number], to: readonly [x: number, y: number]): Promise<void> {
    const event = (type: string, [x, y]: readonly [number, number], buttons: number): Promise<unknown> =>
      this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', buttons, clickCount: 1 });
    await this.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x: from[0], y: from[1] });
    await sleep(100);
    await event('mousePressed', from, 1);
    for (let i = 1; i <= 5 && (from[0] !== to[0] || from[1] !== to[1]); i++) {
      await event(
        'mouseMoved',
        [from[0] + ((to[0] - from[0]) * i) / 5, from[1] + ((to[1] - from[1]) * i) / 5],
        1,
      );
    }
    await event('mouseReleased', to, 0);
  }

  /** Scrolls an element into view and clicks at its centre. */
  async click(selector: string): Promise<void> {
    const at = await this.evaluate<[number, number]>(
      `(() => { const e = document.querySelector(${JSON.stringify(selector)}); e.scrollIntoView({block: 'center', behavior: 'instant'});
        const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`,
    );
    await this.drag(at, at);
  }

  /** What is on the screen, or the whole page, as PNG. */
  async screenshot(whole = false): Promise<Buffer> {
    const { data } = await this.send('Page.captureScreenshot', {
      format: 'png',
      captureBeyondViewport: whole,
    });
    return Buffer.from(data as string, 'base64');
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    try {
      process.kill(-this.#process.pid!, 'SIGKILL');
    } catch {
      // it has ended already
    }
    if (this.#process.exitCode === null && this.#process.signalCode === null) await ended;
    // What a helper still writes to while it ends cannot be removed yet.
    for (let attempt = 0; attempt < 50; attempt++) {
      try {
        rmSync(this.#directory, { recursive: true, force: true });
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }
}
