// Serial numbers of a product over HTTP, as JSON or CSV: parse, one service call, answer.
import { createMiddleware } from 'hono/factory';
import { type AppEnv, jsonBody, replaceBody, createRouter, routesAbout, paged } from '../../http/router.ts';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, callerErrors, declaring } from '../../http/envelope.ts';
import * as schemas from '../../protocol/http/serials.ts';
import { pageSerials, registerSerials, removeSerial } from '../../services/devices/serials.ts';

const route = routesAbout('Products');

const column = String.raw`\s*(?:"((?:[^"]|"")*)"|([^,;]*))`;
const firstColumns = new RegExp(`^${column}\\s*(?:[,;]${column})?`);

function readRow(line: string): { deviceSN: string; claimCode: string } {
  const [, quoted, bare = '', quotedCode, bareCode = ''] = firstColumns.exec(line) ?? [];
  const textOf = (inQuotes: string | undefined, plain: string) => (inQuotes?.replaceAll('""', '"') ?? plain).trim();
  return { deviceSN: textOf(quoted, bare), claimCode: textOf(quotedCode, bareCode) };
}

const convertCsv = createMiddleware<AppEnv>(async (c, next) => {
  if (/^text\/csv\b/i.test(c.var.contentType ?? '')) {
    const lines = (await c.req.raw.text()).replace(/^\uFEFF/, '').split(/\r\n|\n|\r/);
    const rows = lines.map(readRow).filter(({ deviceSN }) => deviceSN !== '');
    const isHeading = rows[0]?.deviceSN.toLowerCase() === 'devicesn';
    const hasCodes = isHeading && rows[0]?.claimCode.toLowerCase() === 'claimcode';
    const serials = (isHeading ? rows.slice(1) : rows).map((row) =>
      hasCodes && row.claimCode !== '' ? row : row.deviceSN,
    );
    replaceBody(c, JSON.stringify({ serials }));
  }
  await next();
});

const signedIn = signedInFor('manageProducts');
const mayManage = declaring(signedIn, ...callerErrors, 'not_found');

export const productSerialRoutes = createRouter()
  .openapi(
    route('post', '/{productKey}/serials', {
      ...mayManage('Register serial numbers before their devices activate', schemas.registeredSerialsSchema),
      description:
        'As JSON, or as `text/csv` with one serial a line in the first column and an optional heading `deviceSN`. With the heading ' +
        '`deviceSN,claimCode` the second column has claim codes. Up to 1 000 in one request of at most 64 KiB, with a result for ' +
        'each. They are devices that are not activated (status 0). A serial with a claim code is claimed only with that code.',
      middleware: [signedIn.middleware, convertCsv] as const,
      request: { body: jsonBody(schemas.serialsBodySchema) },
    }),
    (c) => answer(c, registerSerials(c.var.context, c.var.caller, c.req.valid('param'), c.req.valid('json'))),
  )
  .openapi(
    route('get', '/{productKey}/serials', {
      ...paged(mayManage('List the serial numbers of a product, newest first', schemas.serialPageSchema)),
    }),
    (c) => answer(c, pageSerials(c.var.context, c.var.caller, c.req.valid('param').productKey, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{productKey}/serials/{deviceSN}', {
      ...mayManage('Remove a registered serial number that has not activated', schemas.removedSerialSchema),
    }),
    (c) => answer(c, removeSerial(c.var.context, c.var.caller, c.req.valid('param'))),
  );
