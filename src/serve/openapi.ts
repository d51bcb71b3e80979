/** Description of the service for clients (OpenAPI 3.1), made from the schemas that check requests. */
import { z } from 'zod';
import { reportSchema } from '../explain/schema.ts';
import { packageVersion } from '../ground/paths.ts';
import { CHAT } from './chat-request.ts';
import { BODY, FORMS, LISTS, OPTIONS } from './explain-request.ts';
import { ERROR, EVENTS } from './request.ts';

/** JSON Schema of what clients send. */
function schemaOf(type: z.ZodType): object {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io: 'input' });
  return schema;
}
const json = (schema: object, more = {}): object => ({ 'application/json': { schema, ...more } });
const object = json({ type: 'object' });
const texts = (...types: readonly string[]): object =>
  Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' } }]));
const reference = (name: string): object => json({ $ref: `#/components/schemas/${name}` });

const operation = (summary: string, content = object, more: object = {}): object => {
  const refused = { description: 'Refused; the error says why', content: reference('Error') };
  return { summary, responses: { 200: { description: 'OK', content }, default: refused }, ...more };
};

const explain = (): object => {
  const example = { values: [1, null, 2], options: { severity: 3 } };
  return operation(
    'Find anomalies in a table of numbers or in lists',
    { ...texts(...Object.values(FORMS), EVENTS), ...reference('Report') },
    {
      description: `With Accept: ${EVENTS}, events: progress {"share": 0.5}, a finding each, and the report; error where it fails. Options are parameters beside text/csv, and in the body of JSON.`,
      parameters: Object.entries(OPTIONS).map(([name, option]) => {
        const several = (LISTS as readonly string[]).includes(name);
        const schema = schemaOf(option);
        return { name, in: 'query', schema: several ? { type: 'array', items: schema } : schema };
      }),
      requestBody: {
        required: true,
        content: { ...texts('text/csv'), ...json(schemaOf(BODY), { example }) },
      },
    },
  );
};

/** Returns the description; its paths are those of `METHODS`. */
export function openApi(): object {
  const open = { security: [] };
  const model = { name: 'model', in: 'path', required: true, schema: { type: 'string' } };
  const chat = { requestBody: { required: true, content: json(schemaOf(CHAT)) } };
  return {
    openapi: '3.1.0',
    info: { title: 'timeseer', version: packageVersion() },
    security: [{ key: [] }, {}],
    paths: {
      '/openapi.json': { get: operation('This description', object, open) },
      '/healthz': { get: operation('The process lives', object, open) },
      '/readyz': { get: operation('New requests are taken; how many run or wait', object, open) },
      '/metrics': { get: operation('Metrics for Prometheus', texts('text/plain')) },
      '/v1/models': { get: operation('The policy that is served') },
      '/v1/models/{model}': { get: operation('One model', object, { parameters: [model] }) },
      '/v1/explain': { post: explain() },
      '/v1/chat/completions': {
        post: operation('Chat as the API of OpenAI has it', { ...object, ...texts(EVENTS) }, chat),
      },
    },
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
      schemas: { Report: reportSchema(), Error: schemaOf(z.object({ error: ERROR })) },
    },
  };
}
