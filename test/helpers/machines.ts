/** Several machines on one: network namespaces of Linux, joined by a bridge. */
import { spawnSync } from 'node:child_process';

/** Network namespaces whose processes see each other over cables that can be cut. Needs root and iproute2. */
export class Machines {
  readonly #name = `ts${process.pid}`;
  readonly #size: number;

  /** @throws Error where the system refuses namespaces, bridges or pairs of interfaces */
  constructor(size: number) {
    this.#size = size;
    try {
      ip('link', 'add', this.#name, 'type', 'bridge');
      ip('link', 'set', this.#name, 'up');
      for (let k = 0; k < size; k++) {
        const [namespace, outside] = [`${this.#name}-${k}`, `${this.#name}v${k}`];
        ip('netns', 'add', namespace);
        ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
        ip('link', 'set', outside, 'master', this.#name, 'up');
        ip('-n', namespace, 'address', 'add', `${this.address(k)}/24`, 'dev', 'eth0');
        for (const device of ['lo', 'eth0']) ip('-n', namespace, 'link', 'set', device, 'up');
      }
    } catch (error) {
      this.remove();
      throw error;
    }
  }

  address(k: number): string {
    return `10.254.${process.pid % 256}.${k + 1}`;
  }

  through(k: number): string[] {
    return ['ip', 'netns', 'exec', `${this.#name}-${k}`];
  }

  /** Cuts the cable of a machine, or mends it: what it sends is lost without an answer. */
  cable(k: number, state: 'up' | 'down'): void {
    ip('link', 'set', `${this.#name}v${k}`, state);
  }

  /** Lets at most so much of the traffic to a machine through. */
  slow(k: number, rate: string): void {
    const filter = ['root', 'tbf', 'rate', rate, 'burst', '16kb', 'latency', '200ms'];
    run('tc', 'qdisc', 'replace', 'dev', `${this.#name}v${k}`, ...filter);
  }

  /** Lets all traffic to a machine through again. */
  fast(k: number): void {
    run('tc', 'qdisc', 'delete', 'dev', `${this.#name}v${k}`, 'root');
  }

  remove(): void {
    for (let k = 0; k < this.#size; k++) spawnSync('ip', ['netns', 'delete', `${this.#name}-${k}`]);
    spawnSync('ip', ['link', 'delete', this.#name]);
  }
}

function run(program: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`);
}
const ip = (...args: string[]): void => run('ip', ...args);

/** Returns why this system has no such machines, whose traffic can be limited and arrives; null where it has. */
export function machinesProblem(): string | null {
  let machines: Machines | null = null;
  try {
    machines = new Machines(2);
    machines.slow(0, '8mbit');
    machines.fast(0);
    const [program, ...through] = machines.through(0) as [string, ...string[]];
    const connect = [...through, 'bash', '-c', `echo > /dev/tcp/${machines.address(1)}/9`];
    // Nobody listens there, which only a machine that is reached can say.
    const { stderr } = spawnSync(program, connect, { encoding: 'utf8', timeout: 5000 });
    return /refused/.test(stderr) ? null : 'the machines do not reach each other';
  } catch (error) {
    return (error as Error).message;
  } finally {
    machines?.remove();
  }
}
