// The product catalogue (contract 4.2), and the serial numbers of a product, as JSON or CSV: parse, one service call, answer.
import { createMiddleware } from 'hono/factory';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, callerErrors, declaring } from '../../http/envelope.ts';
import { type AppEnv, createRouter, jsonBody, paged, replaceBody, routesAbout } from '../../http/router.ts';
import { deleteDevicesQuerySchema, deletedDevicesSchema } from '../../protocol/http/devices.ts';
import { answerTable, withCsv } from '../../http/table.ts';
import * as schemas from '../../protocol/http/products.ts';
import { productUsageDaySchema, productUsageSchema, rangeQuerySchema } from '../../protocol/http/usage.ts';
import { deleteDevicesOf } from '../../services/devices/devices.ts';
import { pageSerials, registerSerials, removeSerial } from '../../services/devices/serials.ts';
import * as products from '../../services/products/products.ts';

const route = routesAbout('Products');

const mayRead = declaring(signedInFor('readProducts'), 'unauthorized', 'forbidden');
const mayList = declaring(signedInFor('readProducts'), ...callerErrors);
const manage = signedInFor('manageProducts');
const mayManage = declaring(manage, ...callerErrors);
const mayRegister = declaring(manage, ...callerErrors, 'not_found');
const creatingErrors = ['product_key_exists', 'too_many_products'] as const;
const deletingErrors = ['not_found', 'product_has_devices'] as const;

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

export const productRoutes = createRouter()
  .openapi(
    route('post', '/', {
      ...mayManage('Add a product to the catalogue', schemas.createdProductSchema, ...creatingErrors),
      description: 'A product key is unique over all users; one you deleted can be taken up again by you alone.',
      request: { body: jsonBody(schemas.createProductBodySchema) },
    }),
    (c) => answer(c, products.createProduct(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/', {
      ...mayList('List your products, newest first', schemas.productPageSchema),
      request: { query: schemas.listProductsQuerySchema },
    }),
    (c) => answer(c, products.pageProducts(c.var.context, c.var.caller, c.req.valid('query'))),
  )
  .openapi(route('get', '/{productKey}', mayRead('Read one product', schemas.productSchema, 'not_found')), (c) =>
    answer(c, products.readProduct(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(
    route('get', '/{productKey}/figures', {
      ...mayRead('Count the devices of a product, claimed ones included', schemas.productFiguresSchema, 'not_found'),
    }),
    (c) => answer(c, products.readProductFigures(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(
    route('get', '/{productKey}/usage', {
      ...withCsv(
        mayRead('Sum up how the devices of a product are used', productUsageSchema, 'invalid_request', 'not_found'),
      ),
      description: 'A row for each of the last 400 days on which something was known. Filled at night.',
      request: { query: rangeQuerySchema },
    }),
    (c) => {
      const { productKey } = c.req.valid('param');
      const usage = products.readProductUsage(c.var.context, c.var.caller, productKey, c.req.valid('query'));
      return answerTable(c, usage, productUsageDaySchema);
    },
  )
  .openapi(
    route('put', '/{productKey}', {
      ...mayManage('Change a product', schemas.productSchema, 'not_found'),
      description: 'Any subset of the fields; those left out keep their values.',
      request: { body: jsonBody(schemas.updateProductBodySchema) },
    }),
    (c) => answer(c, products.changeProduct(c.var.context, c.var.caller, c.req.valid('param'), c.req.valid('json'))),
  )
  .openapi(
    route('delete', '/{productKey}', {
      ...mayManage('Delete a product without devices', schemas.deletedProductSchema, ...deletingErrors),
    }),
    (c) => answer(c, products.removeProduct(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(
    route('delete', '/{productKey}/devices', {
      ...mayManage('Delete devices of a product, the newest first', deletedDevicesSchema, 'not_found'),
      description:
        'A slice of those that match; repeat the request until none remains. At least one filter is needed. Disable the ' +
        'product first to stop further activations.',
      request: { query: deleteDevicesQuerySchema },
    }),
    (c) => answer(c, deleteDevicesOf(c.var.context, c.var.caller, c.req.valid('param'), c.req.valid('query'))),
  )
  .openapi(
    route('post', '/{productKey}/serials', {
      ...mayRegister('Register serial numbers before their devices activate', schemas.registeredSerialsSchema),
      description:
        'As JSON, or as `text/csv` with one serial a line in the first column and an optional heading `deviceSN`. With the heading ' +
        '`deviceSN,claimCode` the second column has claim codes. Up to 1 000 in one request of at most 64 KiB, with a result for ' +
        'each. They are devices that are not activated (status 0). A serial with a claim code is claimed only with that code.',
      middleware: [manage.middleware, convertCsv] as const,
      request: { body: jsonBody(schemas.serialsBodySchema) },
    }),
    (c) => answer(c, registerSerials(c.var.context, c.var.caller, c.req.valid('param'), c.req.valid('json'))),
  )
  .openapi(
    route('get', '/{productKey}/serials', {
      ...paged(mayRegister('List the serial numbers of a product, newest first', schemas.serialPageSchema)),
    }),
    (c) => answer(c, pageSerials(c.var.context, c.var.caller, c.req.valid('param').productKey, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{productKey}/serials/{deviceSN}', {
      ...mayRegister('Remove a registered serial number that has not activated', schemas.removedSerialSchema),
    }),
    (c) => answer(c, removeSerial(c.var.context, c.var.caller, c.req.valid('param'))),
  );
