/** Description of the service for clients (OpenAPI 3.1), made from the schemas that check requests. */
import { z } from 'zod';
import { reportSchema } from '../explain/schema.ts';
import { packageVersion } from '../ground/paths.ts';
import { CHAT } from './chat-request.ts';
import { BODY, EVENTS, FORMS, LISTS, OPTIONS } from './explain-request.ts';

/** JSON Schema of what clients send. */
const schemaOf = (type: z.ZodType): object => z.toJSONSchema(type, { io: 'input' });
const json = (schema: object): object => ({ content: { 'application/json': { schema } } });
const text = (type: string): object => ({ content: { [type]: { schema: { type: 'string' } } } });
const refused = {
  description: 'Refused; the error says why',
  ...json({ $ref: '#/components/schemas/Error' }),
};

const operation = (summary: string, content: object, more: object = {}): object => ({
  ...{ summary, responses: { 200: { description: 'OK', ...content }, default: refused }, ...more },
});

const explain = (): object =>
  operation(
    'Find anomalies in a table of numbers or in lists',
    {
      content: {
        ...Object.fromEntries(
          [...Object.values(FORMS), EVENTS].map((type) => [type, { schema: { type: 'string' } }]),
        ),
        'application/json': { schema: { $ref: '#/components/schemas/Report' } },
      },
    },
    {
      description: `With Accept: ${EVENTS}, events: progress {"share": 0.5}, a finding each, and the report; error where it fails. Options are parameters beside text/csv, and in the body of JSON.`,
      parameters: Object.entries(OPTIONS).map(([name, option]) => {
        const schema = schemaOf(option);
        const several = (LISTS as readonly string[]).includes(name);
        return { name, in: 'query', schema: several ? { type: 'array', items: schema } : schema };
      }),
      requestBody: {
        required: true,
        content: {
          'text/csv': {
            schema: { type: 'string' },
            example: 'time,load\n2025-03-01T00:00Z,5\n2025-03-01T00:05Z,6\n',
          },
          'application/json': {
            schema: schemaOf(BODY),
            example: { values: [1, null, 2], options: { severity: 3 } },
          },
        },
      },
    },
  );

/** Returns the description; its paths are those of `METHODS`. */
export function openApi(): object {
  const open = { security: [] };
  const id = { name: 'model', in: 'path', required: true, schema: { type: 'string' } };
  const object = json({ type: 'object' });
  return {
    openapi: '3.1.0',
    info: {
      title: 'timeseer',
      version: packageVersion(),
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    security: [{ key: [] }, {}],
    paths: {
      '/openapi.json': { get: operation('This description', object, open) },
      '/healthz': { get: operation('The process lives', object, open) },
      '/readyz': { get: operation('New requests are taken; how many run or wait', object, open) },
      '/metrics': { get: operation('Metrics for Prometheus', text('text/plain')) },
      '/v1/models': { get: operation('The policy that is served', object) },
      '/v1/models/{model}': { get: operation('One model', object, { parameters: [id] }) },
      '/v1/explain': { post: explain() },
      '/v1/chat/completions': {
        post: operation(
          'Chat with the policy, as the API of OpenAI has it',
          {
            content: { ...(object as { content: object }).content, [EVENTS]: { schema: { type: 'string' } } },
          },
          { requestBody: { required: true, ...json(schemaOf(CHAT)) } },
        ),
      },
    },
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
      schemas: {
        Report: reportSchema(),
        Error: schemaOf(
          z.object({
            error: z.object({
              message: z.string(),
              type: z.string(),
              param: z.string().nullable(),
              code: z.string().nullable(),
            }),
          }),
        ),
      },
    },
  };
}
