// The witness of a device, and check-ins at `/w/{token}`, over HTTP: parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, declaring, deviceErrors } from '../../http/envelope.ts';
import { createRouter, jsonBody, routesAbout, type AppEnv } from '../../http/router.ts';
import { deletedDeviceSchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/witness.ts';
import { checkIn, witnessOf } from '../../services/devices/witness.ts';

const route = routesAbout('Witness');
const mayRead = declaring(signedInFor('readReports'), ...deviceErrors, 'not_found');
const mayManage = declaring(signedInFor('manageWitness'), ...deviceErrors, 'device_not_activated');
const path = '/{deviceId}/witness';

const of = (c: Context<AppEnv>) => witnessOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const deviceWitnessRoutes = createRouter()
  .openapi(route('get', path, mayRead('Read the witness of a device', schemas.witnessSchema)), (c) =>
    answer(c, of(c).read()),
  )
  .openapi(
    route('put', path, {
      ...mayManage('Set what sees whether a press worked', schemas.setWitnessSchema, 'too_many_witnesses', 'not_found'),
      request: { body: jsonBody(schemas.witnessBodySchema) },
      description:
        'Each command then ends as `witnessed` or `not_witnessed`, by what is seen after it was published. A witness acts on nothing else.',
    }),
    (c) => answer(c, of(c).set(c.req.valid('json'))),
  )
  .openapi(route('delete', path, mayManage('Remove the witness of a device', deletedDeviceSchema)), (c) =>
    answer(c, of(c).remove()),
  );

/** No GET: previews of links must not check in. */
export const checkInRoutes = createRouter();
checkInRoutes.post('/:token', async (c) => {
  await checkIn(c.var.context, c.req.param('token'));
  return c.body(null, 204);
});
