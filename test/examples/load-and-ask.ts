/** Opens the policy that ships with timeseer and asks it about one series. */
import { openPolicy, render } from 'timeseer';

const values = Float64Array.from({ length: 1000 }, (_, i) => Math.sin(i / 20) + (i > 600 && i < 640 ? 2 : 0));
const policy = await openPolicy('small');
const [answer] = await policy.ask({
  prompt: 'Find the anomalies.',
  pictures: [await render(values, 'nano')],
  values,
  maxTokens: 96,
});
console.log(answer!.text);
await policy.dispose();
