// Groups and scenes over HTTP: parse, one service call, answer.
import type { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { signedInFor } from '../http/authenticate.ts';
import { answer, callerErrors, commandProblems, declaring } from '../http/envelope.ts';
import { createRouter, jsonBody, paged, routesAbout, type AppEnv } from '../http/router.ts';
import * as schemas from '../protocol/http/collections.ts';
import { collectionsOf, readGroup } from '../services/collections.ts';

const mayRead = declaring(signedInFor('readCollections'), ...callerErrors);
const mayManage = declaring(signedInFor('manageCollections'), ...callerErrors);

const taking = <Body extends z.ZodType>(body: Body) => ({ request: { body: jsonBody(body) } });
const group = routesAbout('Groups');
const scene = routesAbout('Scenes');
const groupsOf = (c: Context<AppEnv>) => collectionsOf(c.var.context, c.var.caller, 'group');
const scenesOf = (c: Context<AppEnv>) => collectionsOf(c.var.context, c.var.caller, 'scene');

export const groupRoutes = createRouter()
  .openapi(
    group('post', '/', {
      ...mayManage('Make a group', schemas.groupSchema, 'too_many_groups'),
      ...taking(schemas.groupBodySchema),
      description: 'Names up to 500 devices, or a tag. It gives no right on them. You may have 100.',
    }),
    (c) => answer(c, groupsOf(c).create(c.req.valid('json'))),
  )
  .openapi(group('get', '/', paged(mayRead('List your groups, newest first', schemas.groupPageSchema))), (c) =>
    answer(c, groupsOf(c).list(c.req.valid('query'))),
  )
  .openapi(
    group('get', '/{groupId}', {
      ...mayRead('Read a group and what is true of its devices now', schemas.groupStateSchema, 'not_found'),
      description: 'Each device is asked. A group has no state of its own.',
    }),
    (c) => answer(c, readGroup(c.var.context, c.var.caller, c.req.valid('param').groupId)),
  )
  .openapi(
    group('patch', '/{groupId}', {
      ...mayManage('Change a group', schemas.groupSchema, 'not_found'),
      ...taking(schemas.groupChangeSchema),
    }),
    (c) => answer(c, groupsOf(c).change(c.req.valid('param').groupId, c.req.valid('json'))),
  )
  .openapi(group('delete', '/{groupId}', mayManage('Delete a group', schemas.deletedGroupSchema, 'not_found')), (c) =>
    answer(c, groupsOf(c).delete(c.req.valid('param').groupId)),
  );

export const sceneRoutes = createRouter()
  .openapi(
    scene('post', '/', {
      ...mayManage('Make a scene', schemas.sceneSchema, 'too_many_scenes', ...commandProblems),
      ...taking(schemas.sceneBodySchema),
      description: 'One command for each of up to 50 devices. It gives no right on them. You may have 100.',
    }),
    (c) => answer(c, scenesOf(c).create(c.req.valid('json'))),
  )
  .openapi(scene('get', '/', paged(mayRead('List your scenes, newest first', schemas.scenePageSchema))), (c) =>
    answer(c, scenesOf(c).list(c.req.valid('query'))),
  )
  .openapi(scene('get', '/{sceneId}', mayRead('Read a scene', schemas.sceneSchema, 'not_found')), (c) =>
    answer(c, scenesOf(c).read(c.req.valid('param').sceneId)),
  )
  .openapi(
    scene('patch', '/{sceneId}', {
      ...mayManage('Change a scene', schemas.sceneSchema, 'not_found', ...commandProblems),
      ...taking(schemas.sceneChangeSchema),
    }),
    (c) => answer(c, scenesOf(c).change(c.req.valid('param').sceneId, c.req.valid('json'))),
  )
  .openapi(scene('delete', '/{sceneId}', mayManage('Delete a scene', schemas.deletedSceneSchema, 'not_found')), (c) =>
    answer(c, scenesOf(c).delete(c.req.valid('param').sceneId)),
  );
