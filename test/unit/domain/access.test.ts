// The table of rights is the one of docs/security.md. That each route keeps to it: test/worker/http/authorization-matrix.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import {
  accountActions,
  deviceActions,
  hasRight,
  scopesFor,
  type Action,
  type DeviceAction,
} from '../../../src/domain/access.ts';
import { deviceRoles as roles } from '../../../src/protocol/vocabulary.ts';

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

it('the table of who may do what stands in docs/security.md, row by row', () => {
  const onDevices = Object.entries(deviceActions).map(([action, { what }]) => [
    what,
    ...roles.map((role) => (hasRight(role, action as DeviceAction) ? 'yes' : '')),
    keyCell(action as Action),
  ]);
  const onAccounts = Object.entries(accountActions).map(([action, { what }]) => [what, keyCell(action as Action)]);
  expect(tableUnder('Rights on devices')).toEqual(onDevices);
  expect(tableUnder('Rights on the own account')).toEqual(onAccounts);
});
