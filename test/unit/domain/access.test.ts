// The table of rights: what docs/security.md says of it, and the few rules that are not in its rows.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  accountActions,
  deviceActions,
  hasRight,
  hasScope,
  inPerson,
  refusalOf,
  roleOf,
  roles,
  scopes,
  scopesFor,
  type Action,
  type DeviceAction,
} from '../../../src/domain/access.ts';

const page = readFileSync(new URL('../../../docs/security.md', import.meta.url), 'utf8');

/** Cells of the rows below a heading. */
function tableUnder(heading: string): string[][] {
  const section = page.split(`\n### ${heading}\n`)[1]?.split('\n#')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const keyCell = (action: Action) => scopesFor(action).join(' or ') || 'no key';

const device = {
  deviceId: 'dev_00000001',
  productKey: 'switch',
  ownerId: 1,
  productOwnerId: 2,
  members: [
    { userId: 3, role: 'operator' },
    { userId: 4, role: 'viewer' },
  ],
} as const;
const userIdOf = { owner: 1, product_owner: 2, operator: 3, viewer: 4 } as const;

describe('the table of who may do what', () => {
  it('stands in docs/security.md, row by row', () => {
    const onDevices = Object.entries(deviceActions).map(([action, { what }]) => [
      what,
      ...roles.map((role) => (hasRight(role, action as DeviceAction) ? 'yes' : '')),
      keyCell(action as Action),
    ]);
    const onAccounts = Object.entries(accountActions).map(([action, { what }]) => [what, keyCell(action as Action)]);
    expect(tableUnder('Rights on devices')).toEqual(onDevices);
    expect(tableUnder('Rights on the own account')).toEqual(onAccounts);
  });

  it('gives the owner everything but leaving and undoing a claim', () => {
    const lacking = Object.entries(deviceActions).filter(
      ([, rule]) => !(rule.roles as readonly string[]).includes('owner'),
    );
    expect(lacking.map(([action]) => action)).toEqual(['leave', 'undoClaim']);
  });

  it('lets the owner of the product see the serial, disable a claimed device, undo its claim and do nothing else', () => {
    const allowed = (Object.keys(deviceActions) as DeviceAction[]).filter(
      (action) => refusalOf(device, inPerson(userIdOf.product_owner), action) === undefined,
    );
    expect(allowed).toEqual(['readSerial', 'disable', 'undoClaim']);
  });
});

describe('a caller', () => {
  it.each(Object.entries(userIdOf))('has the role %s', (role, userId) => {
    expect(roleOf(device, userId)).toBe(role);
  });

  it('who is nothing to the device is told apart from one whose role is not enough', () => {
    expect(refusalOf(device, inPerson(9), 'control')).toMatchObject({ kind: 'not_owner' });
    expect(refusalOf(device, inPerson(userIdOf.viewer), 'control')).toMatchObject({
      kind: 'role_lacks_right',
      role: 'viewer',
      action: 'control',
    });
  });

  it('with an API key is held to its scopes and its product', () => {
    const key = { userId: userIdOf.owner, scopes: ['read'], productKey: null, keyId: null } as const;
    expect(refusalOf(device, key, 'readReports')).toBeUndefined();
    expect(refusalOf(device, key, 'control')).toEqual({ kind: 'key_lacks_right', lacks: 'scope', action: 'control' });
    expect(refusalOf(device, { ...key, productKey: 'switch' }, 'readReports')).toBeUndefined();
    expect(refusalOf(device, { ...key, productKey: 'lamp' }, 'readReports')).toMatchObject({ lacks: 'product' });
  });

  it('with a key of all scopes may not do what asks for the user in person', () => {
    expect(hasScope({ userId: 1, scopes, productKey: null, keyId: null }, 'transfer')).toBe(false);
    expect(hasScope(inPerson(1), 'transfer')).toBe(true);
  });
});
