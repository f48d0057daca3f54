// The product catalogue (contract 4.2): parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, responsesOf } from '../../http/envelope.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter } from '../../http/router.ts';
import { deleteDevicesQuerySchema, deletedDevicesSchema } from '../../protocol/http/devices.ts';
import {
  createdProductSchema,
  createProductBodySchema,
  deletedProductSchema,
  listProductsQuerySchema,
  productFiguresSchema,
  productKeyParamSchema,
  productPageSchema,
  productSchema,
  updateProductBodySchema,
} from '../../protocol/http/products.ts';
import { deleteDevicesOf } from '../../services/devices/deletion.ts';
import {
  changeProduct,
  createProduct,
  pageProducts,
  readProduct,
  readProductFigures,
  removeProduct,
} from '../../services/products/products.ts';

const mayRead = { tags: ['Products'], ...signedInFor('readProducts') };
const mayManage = { tags: ['Products'], ...signedInFor('manageProducts') };

const createProductRoute = createRoute({
  method: 'post',
  path: '/',
  summary: 'Add a product to the catalogue',
  description: 'A product key is unique over all users; one you deleted can be taken up again by you alone.',
  ...mayManage,
  request: { body: jsonBody(createProductBodySchema) },
  responses: responsesOf(
    createdProductSchema,
    'invalid_request',
    'unauthorized',
    'forbidden',
    'product_key_exists',
    'too_many_products',
  ),
});

const listProductsRoute = createRoute({
  method: 'get',
  path: '/',
  summary: 'List your products, newest first',
  ...mayRead,
  request: { query: listProductsQuerySchema },
  responses: responsesOf(productPageSchema, 'invalid_request', 'unauthorized', 'forbidden'),
});

const readProductRoute = createRoute({
  method: 'get',
  path: '/{productKey}',
  summary: 'Read one product',
  ...mayRead,
  request: { params: productKeyParamSchema },
  responses: responsesOf(productSchema, 'unauthorized', 'forbidden', 'not_found'),
});

const figuresRoute = createRoute({
  method: 'get',
  path: '/{productKey}/figures',
  tags: ['Products'],
  summary: 'Count the devices of a product, claimed ones included',
  ...signedInFor('readProducts'),
  request: { params: productKeyParamSchema },
  responses: responsesOf(productFiguresSchema, 'unauthorized', 'forbidden', 'not_found'),
});

const changeProductRoute = createRoute({
  method: 'put',
  path: '/{productKey}',
  summary: 'Change a product',
  description: 'Any subset of the fields; those left out keep their values.',
  ...mayManage,
  request: { params: productKeyParamSchema, body: jsonBody(updateProductBodySchema) },
  responses: responsesOf(productSchema, 'invalid_request', 'unauthorized', 'forbidden', 'not_found'),
});

const deleteProductRoute = createRoute({
  method: 'delete',
  path: '/{productKey}',
  summary: 'Delete a product without devices',
  ...mayManage,
  request: { params: productKeyParamSchema },
  responses: responsesOf(
    deletedProductSchema,
    'invalid_request',
    'unauthorized',
    'forbidden',
    'not_found',
    'product_has_devices',
  ),
});

const deleteDevicesRoute = createRoute({
  method: 'delete',
  path: '/{productKey}/devices',
  summary: 'Delete devices of a product, the newest first',
  description:
    'A slice of those that match; repeat the request until none remains. At least one filter is needed. Disable the ' +
    'product first to stop further activations.',
  ...mayManage,
  request: { params: productKeyParamSchema, query: deleteDevicesQuerySchema },
  responses: responsesOf(deletedDevicesSchema, 'invalid_request', 'unauthorized', 'forbidden', 'not_found'),
});

export const productRoutes = createRouter()
  .openapi(createProductRoute, async (c) =>
    answer(c, await createProduct(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(listProductsRoute, async (c) => {
    const { category, page, size } = c.req.valid('query');
    // Forms send an empty filter for none; no product has an empty category.
    const wanted = category === '' ? undefined : category;
    return answer(c, await pageProducts(c.var.context, c.var.caller, wanted, { page, size }));
  })
  .openapi(readProductRoute, async (c) =>
    answer(c, await readProduct(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(figuresRoute, async (c) =>
    answer(c, await readProductFigures(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(changeProductRoute, async (c) => {
    const { productKey } = c.req.valid('param');
    return answer(c, await changeProduct(c.var.context, c.var.caller, productKey, c.req.valid('json')));
  })
  .openapi(deleteProductRoute, async (c) =>
    answer(c, await removeProduct(c.var.context, c.var.caller, c.req.valid('param').productKey)),
  )
  .openapi(deleteDevicesRoute, async (c) => {
    const { status: statusCode, createdAfter, createdBefore } = c.req.valid('query');
    const filter = { statusCode, createdAfter, createdBefore };
    const { productKey } = c.req.valid('param');
    return answer(c, await deleteDevicesOf(c.var.context, c.var.caller, productKey, filter));
  });
