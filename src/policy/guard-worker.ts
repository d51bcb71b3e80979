/** The Worker of guard.ts: runs what a checkpoint brings along, and answers until it is stopped. */
import { workerData } from 'node:worker_threads';
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import type { GuardData, Program, Reply, Request, Task } from './guard.ts';

const { port, signal } = workerData as GuardData;

type Runner = (task: Task) => unknown;

function runnerOf(program: Program): Runner {
  if (program.kind === 'template') {
    const template = new Template(program.source);
    return (task) =>
      'render' in task
        ? template.render({ messages: task.render, add_generation_prompt: task.generation })
        : undefined;
  }
  const tokenizer = new Tokenizer(program.json, program.config);
  return (task) => {
    if ('encode' in task)
      return Int32Array.from(tokenizer.encode(task.encode, { add_special_tokens: false }).ids);
    if (!('decode' in task)) return undefined;
    return tokenizer.decode([...task.decode], {
      skip_special_tokens: task.skipSpecial,
      clean_up_tokenization_spaces: false,
    });
  };
}

const programs = new Map<number, Runner>();

function answer({ fresh, id, program, task }: Request): Reply {
  try {
    if (fresh) programs.clear();
    const runner = programs.get(id) ?? runnerOf(program!);
    programs.set(id, runner);
    return { value: runner(task) };
  } catch (cause) {
    return { error: cause instanceof Error ? cause.message : String(cause) };
  }
}

function done(): void {
  Atomics.add(signal, 0, 1);
  Atomics.notify(signal, 0);
}

port.on('message', (request: Request) => {
  port.postMessage(answer(request));
  done();
});
done();
