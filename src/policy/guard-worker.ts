/** The Worker of guard.ts: runs what a checkpoint brings along, and answers until it is stopped. */
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import { answerRequests } from '../ground/worker-thread.ts';
import type { Program, Request, Task } from './guard.ts';

type Runner = (task: Task) => unknown;

function runnerOf(program: Program): Runner {
  if (program.kind === 'template') {
    const template = new Template(program.source);
    return (task) =>
      'render' in task ? template.render({ messages: task.render, add_generation_prompt: true }) : undefined;
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

answerRequests<Request, unknown>(
  ({ fresh, id, program, task }) => {
    if (fresh) programs.clear();
    const runner = programs.get(id) ?? runnerOf(program!);
    programs.set(id, runner);
    return { reply: runner(task) };
  },
  { foreign: true },
);
