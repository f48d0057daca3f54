// The reference documents, OpenAPI from the routes and AsyncAPI from the message schemas, both made when the Worker is built
// (dev/build/reference.js) and read from the static files beside it. The pages that show them are in pages.ts.
import { z } from '@hono/zod-openapi';
import type { Context, TypedResponse } from 'hono';
import type { JSONValue } from 'hono/utils/types';
import { type AppEnv, createRouter, routesAbout } from '../http/router.ts';
import { limitRate } from '../http/client-address.ts';
import { errorAnswers } from '../http/envelope.ts';

const route = routesAbout('Reference');

/** What stands in the built AsyncAPI document for the broker of a deployment. */
export const brokerPlaceholders = { host: '@MQTT_HOST@', port: '@MQTT_PORT@', tlsPort: '@MQTT_TLS_PORT@' };

const about = (summary: string, description: string) => ({
  summary,
  middleware: limitRate('HEALTH_LIMIT'),
  responses: {
    200: { description, content: { 'application/json': { schema: z.looseObject({}) } } },
    ...errorAnswers('too_many_requests'),
  },
});

export const referenceRoutes = createRouter()
  .openapi(route('get', '/openapi.json', about('This document', 'OpenAPI 3.1, without an envelope')), async (c) =>
    sendDocument(c, (await openDocument(c, 'openapi')).body),
  )
  .openapi(
    route('get', '/asyncapi.json', about('Device topics, relay and provisioning', 'AsyncAPI 3, without an envelope')),
    async (c) => {
      const { broker } = c.var.context.config;
      const members = ['host', 'port', 'tlsPort'] as const;
      const document = await (await openDocument(c, 'asyncapi')).text();
      return sendDocument(
        c,
        members.reduce((text, name) => text.replaceAll(brokerPlaceholders[name], String(broker[name])), document),
      );
    },
  );

/** @throws Error if it was not built */
async function openDocument(c: Context<AppEnv>, name: 'openapi' | 'asyncapi'): Promise<Response> {
  const file = await c.env.ASSETS.fetch(new URL(`/reference/${name}.json`, c.req.url));
  if (!file.ok) throw new Error(`the document ${name} is not there: ${file.status}`);
  return file;
}

function sendDocument(c: Context<AppEnv>, json: string | ReadableStream | null) {
  c.header('Content-Type', 'application/json');
  // It changes with a deployment only and holds nothing confidential.
  c.header('Cache-Control', 'public, max-age=300');
  return c.newResponse(json, 200) as Response & TypedResponse<Record<string, JSONValue>, 200, 'json'>;
}
