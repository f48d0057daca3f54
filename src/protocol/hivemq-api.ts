// Answers of HiveMQ Cloud's REST API (version 2): the members that are read here. Shapes only.
import { z } from 'zod';

export type HivemqEntry = { id: string; name: string };
export type HivemqPage = { entries: HivemqEntry[]; next: string | null | undefined };

const entrySchema = z.object({ id: z.string(), name: z.string() });
const linksSchema = z.object({ next: z.string().nullish() }).nullish();

export const createdRoleSchema = z.object({ roleInfo: entrySchema }).transform(({ roleInfo }) => roleInfo.id);

export const createdPermissionSchema = z
  .object({ permissionInfo: entrySchema })
  .transform(({ permissionInfo }) => permissionInfo.id);

/** One user's: a list of one. */
export const credentialSchema = z
  .object({
    credentials: z
      .array(
        z.object({
          userInfo: z.object({
            roleRefs: z.array(z.object({ roleId: z.string(), roleName: z.string() })).default([]),
          }),
        }),
      )
      .length(1),
  })
  .transform(({ credentials }) => ({
    roles: credentials.flatMap(({ userInfo }) =>
      userInfo.roleRefs.map(({ roleId, roleName }): HivemqEntry => ({ id: roleId, name: roleName })),
    ),
  }));

export const rolesSchema = z
  .object({ roles: z.array(z.object({ roleInfo: entrySchema })), _links: linksSchema })
  .transform(({ roles, _links }): HivemqPage => ({
    entries: roles.map(({ roleInfo }) => roleInfo),
    next: _links?.next,
  }));

export const permissionsSchema = z
  .object({ permissions: z.array(z.object({ permissionInfo: entrySchema })), _links: linksSchema })
  .transform(({ permissions, _links }): HivemqPage => ({
    entries: permissions.map(({ permissionInfo }) => permissionInfo),
    next: _links?.next,
  }));
