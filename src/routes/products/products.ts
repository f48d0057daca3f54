// The product catalogue (contract 4.2): parse, one service call, answer.
import { signedInFor } from '../../http/authenticate.ts';
import { answer, callerErrors, responsesOf } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import { deleteDevicesQuerySchema, deletedDevicesSchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/products.ts';
import { deleteDevicesOf } from '../../services/devices/deletion.ts';
import * as products from '../../services/products/products.ts';

const route = routesAbout('Products');

const mayRead = signedInFor('readProducts');
const mayManage = signedInFor('manageProducts');

export const productRoutes = createRouter()
  .openapi(
    route('post', '/', {
      summary: 'Add a product to the catalogue',
      description: 'A product key is unique over all users; one you deleted can be taken up again by you alone.',
      ...mayManage,
      request: { body: jsonBody(schemas.createProductBodySchema) },
      responses: responsesOf(schemas.createdProductSchema, ...callerErrors, 'product_key_exists', 'too_many_products'),
    }),
    (c) => answer(c, products.createProduct(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/', {
      summary: 'List your products, newest first',
      ...mayRead,
      request: { query: schemas.listProductsQuerySchema },
      responses: responsesOf(schemas.productPageSchema, ...callerErrors),
    }),
    (c) => {
      const { category, page, size } = c.req.valid('query');
      // Forms send an empty filter for none; no product has an empty category.
      const wanted = category === '' ? undefined : category;
      return answer(c, products.pageProducts(c.var.context, c.var.caller, wanted, { page, size }));
    },
  )
  .openapi(
    route('get', '/{productKey}', {
      summary: 'Read one product',
      ...mayRead,
      request: { params: schemas.productKeyParamSchema },
      responses: responsesOf(schemas.productSchema, 'unauthorized', 'forbidden', 'not_found'),
    }),
    (c) => answer(c, products.readProduct(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(
    route('get', '/{productKey}/figures', {
      summary: 'Count the devices of a product, claimed ones included',
      ...signedInFor('readProducts'),
      request: { params: schemas.productKeyParamSchema },
      responses: responsesOf(schemas.productFiguresSchema, 'unauthorized', 'forbidden', 'not_found'),
    }),
    (c) => answer(c, products.readProductFigures(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(
    route('put', '/{productKey}', {
      summary: 'Change a product',
      description: 'Any subset of the fields; those left out keep their values.',
      ...mayManage,
      request: { params: schemas.productKeyParamSchema, body: jsonBody(schemas.updateProductBodySchema) },
      responses: responsesOf(schemas.productSchema, ...callerErrors, 'not_found'),
    }),
    (c) => {
      const { productKey } = c.req.valid('param');
      return answer(c, products.changeProduct(c.var.context, c.var.caller, productKey, c.req.valid('json')));
    },
  )
  .openapi(
    route('delete', '/{productKey}', {
      summary: 'Delete a product without devices',
      ...mayManage,
      request: { params: schemas.productKeyParamSchema },
      responses: responsesOf(schemas.deletedProductSchema, ...callerErrors, 'not_found', 'product_has_devices'),
    }),
    (c) => answer(c, products.removeProduct(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(
    route('delete', '/{productKey}/devices', {
      summary: 'Delete devices of a product, the newest first',
      description:
        'A slice of those that match; repeat the request until none remains. At least one filter is needed. Disable the ' +
        'product first to stop further activations.',
      ...mayManage,
      request: { params: schemas.productKeyParamSchema, query: deleteDevicesQuerySchema },
      responses: responsesOf(deletedDevicesSchema, ...callerErrors, 'not_found'),
    }),
    (c) =>
      answer(c, deleteDevicesOf(c.var.context, c.var.caller, c.req.valid('param').productKey, c.req.valid('query'))),
  );
