/** Evaluates a chat model behind an OpenAI-compatible endpoint on a few series. */
import { evaluate } from 'timeseer';

const url = process.env['ENDPOINT'] ?? 'http://127.0.0.1:8000/v1';
const evaluation = await evaluate({
  policy: `openai:my-model@${url}`,
  task: 'nano5',
  ...{ count: 2, maxTokens: 64, classical: false },
});
if (evaluation.kind === 'single') {
  for (const [temperature, metrics] of evaluation.sets) {
    for (const [name, { mean, ci95 }] of Object.entries(metrics.overall)) {
      console.log(
        `${name} at temperature ${temperature}: ${mean.toFixed(2)} [${ci95.map((x) => x.toFixed(2)).join(', ')}]`,
      );
    }
  }
}
