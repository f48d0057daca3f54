// The firmware of one device, and images at `/f/{token}`, over HTTP: parse, one service call, answer. A part of an image is answered exactly,
// or refused: a whole image in place of a part would corrupt what a device has.
import { signedInFor } from '../../http/authenticate.ts';
import { answer, declaring, deviceErrors } from '../../http/envelope.ts';
import { createRouter, routesAbout } from '../../http/router.ts';
import { deletedDeviceSchema } from '../../protocol/http/devices.ts';
import { deviceFirmwareSchema } from '../../protocol/http/firmware.ts';
import * as firmware from '../../services/devices/firmware.ts';

const route = routesAbout('Firmware');
const mayRead = declaring(signedInFor('readReports'), ...deviceErrors);
const mayPostpone = declaring(signedInFor('postponeUpdate'), ...deviceErrors, 'device_not_activated');
const path = '/{deviceId}/firmware';

export const deviceFirmwareRoutes = createRouter()
  .openapi(
    route('get', path, mayRead('Read what a device runs, and how far its update is', deviceFirmwareSchema)),
    (c) => answer(c, firmware.readFirmware(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', `${path}/postpone`, {
      ...mayPostpone('Put off an update for 30 days', deletedDeviceSchema, 'not_found', 'update_needed'),
      description: 'As long as nothing of it was fetched, and unless its maker marked it as relevant to security.',
    }),
    (c) => answer(c, firmware.postponeUpdate(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  );

export const imageRoutes = createRouter();

imageRoutes.get('/:token/manifest', async (c) =>
  c.text(await firmware.readSignedManifest(c.var.context, c.req.param('token'))),
);

imageRoutes.get('/:token', async (c) => {
  const range = c.req.header('Range');
  const headers = { range, ifRange: c.req.header('If-Range') };
  const { size, etag, part } = await firmware.openImage(c.var.context, c.req.param('token'), headers);
  c.header('ETag', etag);
  c.header('Accept-Ranges', 'bytes');
  if (typeof part === 'string') {
    c.header('Content-Range', `bytes */${size}`);
    return c.body(null, part === 'outside' ? 416 : 412);
  }
  const { offset, length, body } = part;
  c.header('Content-Type', 'application/octet-stream');
  c.header('Content-Length', String(length));
  if (range !== undefined) c.header('Content-Range', `bytes ${offset}-${offset + length - 1}/${size}`);
  return c.newResponse(body as never, range === undefined ? 200 : 206);
});
