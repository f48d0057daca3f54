// What each caller is shown: every GET of the served reference, by every role and kind of API key, against one table of the
// members of its answers; and what they cannot make of it. Who may call at all is authorization-matrix.test.ts.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { listOperations } from '../../../rig/inputs/openapi-document.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, send, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import { createKey, prepareCallers, type Callers } from '../rig/authorization-callers.ts';
import { report } from '../rig/commands.ts';
import { inform, ringCampaign } from '../rig/firmware.ts';
import { accept, invite } from '../rig/sharing.ts';
import { activate, tokenOf as claimTokenOf } from '../rig/ownership.ts';
import { reportConnected, reportDisconnected, sessionOf } from '../rig/provision.ts';

const names = 'owner operator viewer productOwner stranger read control manage bound other'.split(' ');
const paged = (members: string) => `${members.replaceAll(/\S+/g, (member) => `list[].${member}`)} page size total`;
const empty = 'list page size total';

const product =
  'productId productKey name description category controlMode uiTemplate iconName iconColor manufacturer model status ' +
  'offlineGraceSeconds activation reactivation supportsHold createdAt updatedAt';
const device =
  'role deviceId deviceSN productKey projectId name statusCode status statusText firmwareVersion chipModel lastOnlineAt ' +
  'activatedAt createdAt tags product.productId product.productKey product.name product.uiTemplate product.iconName ' +
  'product.iconColor product.controlMode product.model';
const event = 'status reason detail time count';
const command =
  'commandId state reason final replyCode params.action guestLinkId scheduleId kept expiresAt steps.accepted steps.published ' +
  'steps.brokerAcknowledged steps.deliveredAt steps.deviceAcknowledged steps.confirmed givenBy.userId givenBy.withKey retryOf ' +
  'steps.witnessed witness';
const commandWitness = 'expect outcome at by reason dueAt'.replaceAll(/\S+/g, 'witness.$&');
const schedule =
  'scheduleId name command.action at days[] zone from until except jitterSeconds graceSeconds enabled pausedBecause ' +
  'author.userId author.withKey nextDueAt why';
const securityEvent = 'kind at count clientAddress';
const account = 'userId username email emailVerified createdAt';
const notice = 'noticeId cause deviceId deviceName at detail.event detail.clientAddress again isRead';
const webhook = 'webhookId url types[] productKey deviceIds disabledBecause createdAt';
const group = 'groupId name deviceIds[] tag productKey createdAt';
const counted = 'up middle down unknown offline forbidden'.replaceAll(/\S+/g, 'counts.$&');
const groupState = `${group} ${counted} devices[].deviceId devices[].name devices[].online devices[].position`;
const scene = 'sceneId name items[].deviceId items[].command.action putBack deadlineSeconds createdAt';
const apiKey = 'keyId description scopes[] productKey deviceIds createdAt lastUsedAt';
const invitation = 'invitationId role createdAt expiresAt';

const seconds = 'seconds onSeconds offSeconds unknownSeconds';
const presses = 'person key schedule scene hand'.replaceAll(/\S+/g, 'presses.$&');
const usage = `from to zone ${seconds} ${presses} failures`.replaceAll(/\S+/g, 'list[].$&');

const manifest = 'product version size sha256'.replaceAll(/\S+/g, 'manifest.$&');
const firmware = `version ${manifest} keyId createdAt storedAt`.replaceAll(/\S+/g, 'list[].$&');
const campaign = 'campaignId version state createdAt';
const stopAt = 'failedPercent offlinePercent'.replaceAll(/\S+/g, 'stopAt.$&');
const order = `version waves[].devices[] ${stopAt} waitSeconds`.replaceAll(/\S+/g, 'order.$&');
const waves = 'devices outcomes.offered absent away usuallyAway'.replaceAll(/\S+/g, 'waves[].$&');
const updateOf = 'deviceId wave state reason since';
const installed = 'version slot reportedAt'.replaceAll(/\S+/g, 'installed.$&');
const steps = 'state time'.replaceAll(/\S+/g, 'steps[].$&');
const update = `campaignId version formerVersion state reason error percent security endsAt ${steps}`.replaceAll(
  /\S+/g,
  'update.$&',
);

const forEverybody = {};
/**
 * What the callers named on the left are shown. Who is not named is refused, on that route and device. `productOwner` is the
 * owner, asking about a device of the product that another user claimed; `bound` is a key of all scopes for the product,
 * `other` one for another product of the same owner.
 */
const table: Record<string, Record<string, string>> = {
  '/health': forEverybody,
  '/api/v1/openapi.json': forEverybody,
  '/api/v1/asyncapi.json': forEverybody,
  '/api/v1/users/me': { [names.join(' ')]: account },
  '/api/v1/users/api-keys': {
    'owner productOwner': paged(`${apiKey} deviceIds[]`),
    stranger: paged(apiKey),
    'operator viewer': empty,
  },
  '/api/v1/users/me/security-events': {
    'owner productOwner': paged(
      `${securityEvent} detail.keyId detail.deviceId detail.userId detail.role detail.webhookId`,
    ),
    stranger: paged(`${securityEvent} detail.keyId`),
    'operator viewer': empty,
  },
  '/api/v1/users/me/sessions': {
    'owner productOwner operator viewer stranger': paged(
      'sessionId createdAt lastUsedAt expiresAt clientAddress userAgent isCurrent',
    ),
  },
  '/api/v1/users/me/blocked-senders': {
    viewer: paged('userId email'),
    'owner productOwner operator stranger': empty,
  },
  '/api/v1/users/me/notices': {
    'owner productOwner': `${paged(`${notice} detail.keyId detail.webhookId`)} unread`,
    stranger: `${paged(`${notice} detail.keyId`)} unread`,
    'operator viewer': `${empty} unread`,
  },
  '/api/v1/users/me/notice-settings': {
    'owner productOwner operator viewer stranger': 'off offlineAfterSeconds handHours quietHours',
  },
  '/api/v1/users/me/push-subscriptions': {
    'owner productOwner': 'publicKey list[].subscriptionId list[].host list[].createdAt',
    'operator viewer stranger': 'publicKey list',
  },
  // Of these members, each is what the caller's other routes answer.
  '/api/v1/users/me/export': { 'owner productOwner operator viewer stranger': 'account devices next' },
  '/api/v1/users/me/zone': { 'owner productOwner operator viewer stranger': 'zone' },
  '/api/v1/webhooks': {
    'owner productOwner manage': paged(webhook),
    'operator viewer stranger bound other': empty,
  },
  '/api/v1/webhooks/{webhookId}': { 'owner productOwner manage': webhook },
  '/api/v1/webhooks/{webhookId}/deliveries': {
    'owner productOwner manage': paged('messageId at status problem tookMs deviceId type'),
  },
  '/api/v1/groups': {
    'owner productOwner read control manage bound other': paged(group),
    'operator viewer stranger': empty,
  },
  '/api/v1/groups/{groupId}': {
    'owner productOwner read bound': groupState,
    'control manage other': `${groupState} devices[].refused`,
  },
  '/api/v1/scenes': {
    'owner productOwner read control manage bound other': paged(scene),
    'operator viewer stranger': empty,
  },
  '/api/v1/scenes/{sceneId}': { 'owner productOwner read control manage bound other': scene },
  '/api/v1/bulk/{bulkId}': {
    'owner productOwner read control': `bulkId state dryRun createdAt summary.would_take listed scene ${paged('deviceId outcome reason command')}`,
  },
  '/api/v1/products': { 'owner productOwner read bound other': paged(product), 'operator viewer stranger': empty },
  '/api/v1/products/{productKey}': { 'owner productOwner read bound': product },
  '/api/v1/products/{productKey}/figures': { 'owner productOwner read bound': 'devices online claimed activatedToday' },
  '/api/v1/products/{productKey}/usage': { 'owner productOwner read bound': 'list' },
  '/api/v1/products/{productKey}/firmware-keys': {
    'owner productOwner read bound': 'keyId algorithm createdAt'.replaceAll(/\S+/g, 'list[].$&'),
  },
  '/api/v1/products/{productKey}/firmware': { 'owner productOwner read bound': firmware },
  '/api/v1/products/{productKey}/campaigns': { 'owner productOwner read bound': paged(campaign) },
  '/api/v1/products/{productKey}/campaigns/{campaignId}': {
    'owner productOwner read bound': `${campaign} pausedBecause endedAt ${order} wave ${waves} ${paged(updateOf)}`,
  },
  '/api/v1/products/{productKey}/serials': {
    'owner productOwner manage bound': paged(
      'deviceSN deviceId registeredAt activatedAt isClaimed isDisabled hasClaimCode',
    ),
  },
  '/api/v1/invitations': {
    stranger: paged(`${invitation} deviceId deviceName invitedBy`),
    'owner productOwner operator viewer': empty,
  },
  '/api/v1/claim-tokens/{token}': { 'owner productOwner manage': 'deviceId expiresAt' },
  '/api/v1/devices': {
    'owner productOwner operator viewer read bound': paged(device),
    'stranger other': empty,
  },
  '/api/v1/devices/transfers': {
    stranger: paged('deviceId productKey productName from offeredAt expiresAt'),
    'owner productOwner operator viewer': empty,
  },
  '/api/v1/devices/{deviceId}': { 'owner operator viewer read bound': device },
  '/api/v1/devices/{deviceId}/witness': {
    'owner operator viewer read bound': 'expect by.property withinSeconds then actual',
  },
  '/api/v1/devices/{deviceId}/status': {
    'owner operator viewer read bound': 'deviceId deviceName online position status lastOnlineAt actual',
  },
  '/api/v1/devices/{deviceId}/events': {
    'owner bound': paged(`${event} address email role`),
    'operator viewer read': paged(event),
  },
  '/api/v1/devices/{deviceId}/properties': {
    'owner operator viewer read bound':
      'list[].name list[].value list[].time positionChanges[].position positionChanges[].time lastRejected.topic ' +
      'lastRejected.reason lastRejected.dropped[] lastRejected.text lastRejected.time',
  },
  '/api/v1/devices/{deviceId}/firmware': { 'owner operator viewer read bound': `${installed} ${update}` },
  '/api/v1/devices/{deviceId}/usage': { 'owner operator viewer read bound': usage },
  '/api/v1/devices/{deviceId}/history': { 'owner operator viewer read bound': 'property zone list' },
  '/api/v1/devices/{deviceId}/commands': {
    'owner operator viewer read control bound': `${paged(`${command} ${commandWitness}`)} list[].givenBy`,
  },
  '/api/v1/devices/{deviceId}/commands/{commandId}': { 'owner operator viewer read control bound': command },
  '/api/v1/devices/{deviceId}/schedules': { 'owner operator viewer read bound': paged(schedule) },
  '/api/v1/devices/{deviceId}/schedules/{scheduleId}': { 'owner operator viewer read bound': schedule },
  '/api/v1/devices/{deviceId}/schedules/next': {
    'owner operator viewer read bound': 'list[].scheduleId list[].dueAt list[].why list[].skipped',
  },
  '/api/v1/devices/{deviceId}/runs': {
    'owner operator viewer read bound': `${paged('runId scheduleId name dueAt outcome reason commandId')} dropped`,
  },
  '/api/v1/devices/{deviceId}/members': { 'owner manage bound': paged('userId email role since') },
  '/api/v1/devices/{deviceId}/invitations': { 'owner manage bound': paged(`${invitation} email`) },
  '/api/v1/devices/{deviceId}/guest-links': {
    'owner manage bound': paged('linkId command.action maxUses uses state createdAt expiresAt lastUsedAt'),
  },
  '/api/v1/devices/{deviceId}/ownership': {
    owner: 'deviceId claimedAt pairingUntil reactivation mustRenew transfer.email transfer.expiresAt',
  },
};

/** Paths of the members that hold no other members. */
function membersOf(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return [path];
  if (Array.isArray(value)) return value.flatMap((item) => membersOf(item, `${path}[]`));
  return Object.entries(value).flatMap(([name, item]) => membersOf(item, path === '' ? name : `${path}.${name}`));
}

let callers: Callers;
let credentials: Record<string, CallOptions>;
beforeAll(async () => {
  callers = await prepareCallers('through a broker');
  const { owner, stranger, holder, members, scopedKeys, keyOfOtherProduct, ownerObjects, claimed } = callers;
  const { productKey = '', deviceId = '', linkId = '' } = ownerObjects;
  const tokenOf = ({ token }: TestUser) => ({ token });
  credentials = {
    ...{ owner: tokenOf(owner.user), operator: tokenOf(members.operator), viewer: tokenOf(members.viewer) },
    ...{ productOwner: tokenOf(owner.user), stranger: tokenOf(stranger.user) },
    ...Object.fromEntries(Object.entries(scopedKeys).map(([scope, key]) => [scope, { key }])),
    ...{ bound: { key: await createKey(owner.user, { productKey }) }, other: { key: keyOfOtherProduct } },
  };
  await ringCampaign(ownerObjects['campaignId'] ?? '');
  const session = sessionOf(deviceId);
  await session.authenticate({ productKey, passwordDigest: 'wrong', peer: '198.51.100.8' });
  await session.useGuestLink({ linkId, address: '198.51.100.9', requestId: undefined }, 0);
  await reportConnected({ deviceId });
  await bringUp({ productKey, deviceId }, report({ position: 'up' }), report({ position: 7 }), inform('1.0.0'));
  const as = { headers: { 'CF-Connecting-IP': '198.51.100.7' }, ...credentials['owner'] };
  for (const by of ['operator', 'control']) {
    await call('POST', `/devices/${deviceId}/control`, { ...credentials[by], body: { action: 'trigger' } });
  }
  await call('POST', `/devices/${deviceId}/schedules/${ownerObjects['scheduleId']}/run`, as);
  await call('POST', `/devices/${deviceId}/credentials`, as);
  await call('POST', `/devices/${deviceId}/transfer`, { ...as, body: { email: 'buyer@example.test' } });
  await invite({ deviceId: claimed.deviceId, productKey }, members.viewer, 'viewer', holder);
  await call('POST', '/users/me/blocked-senders', { ...credentials['viewer'], body: { email: holder.email } });
  const offered = (await activate(productKey, undefined, { deviceSN: 'SN-offered' })).data;
  await call('POST', `/devices/${offered.deviceId}/transfer`, { ...as, body: { email: stranger.user.email } });
  await invite({ deviceId: claimed.deviceId, productKey }, stranger.user, 'viewer', holder);
});
afterAll(() => callers.connection.close());

function readAs(name: string, path: string): Promise<Response> {
  const { ownerObjects, claimed } = callers;
  const objects = { ...ownerObjects, ...(name === 'productOwner' && { deviceId: claimed.deviceId }) };
  const url = path.replaceAll(/\{(\w+)\}/g, (_, parameter: keyof typeof objects) => objects[parameter] ?? '');
  return send('GET', `${url}?size=100&property=wifi_rssi`, credentials[name]);
}

it('shows each caller the members of the table and no others, on every GET of the reference', async () => {
  const reads = listOperations(callers.document).filter(({ method }) => method === 'GET');
  expect(Object.keys(table).sort()).toEqual(reads.map(({ path }) => path).sort());
  const shown: Record<string, string[]> = {};
  const expected: Record<string, string[]> = {};
  for (const [path, row] of Object.entries(table)) {
    if (row === forEverybody) continue;
    for (const name of names) {
      const response = await readAs(name, path);
      const { data } = await response.json<{ data: unknown }>();
      const refusal = [401, 403, 404].includes(response.status) ? [''] : [`${response.status}`];
      const members = (value: object) => (path.endsWith('/export') ? Object.keys(value) : membersOf(value));
      shown[`${name} ${path}`] = response.ok ? [...new Set(members(data as object))].sort() : refusal;
      const [, wanted = ''] = Object.entries(row).find(([callersOf]) => callersOf.split(' ').includes(name)) ?? [];
      expected[`${name} ${path}`] = wanted.split(' ').sort();
    }
  }
  expect(shown).toEqual(expected);
});

it('shows the same to everybody on the open routes', async () => {
  for (const path of Object.keys(table).filter((route) => table[route] === forEverybody)) {
    const answers = await Promise.all([...names, 'nobody'].map((name) => readAs(name, path)));
    const texts = await Promise.all(answers.map((response) => response.text()));
    expect(new Set(texts).size, path).toBe(1);
  }
});

it('lists nothing of the owner for strangers, except what is offered to them', async () => {
  const ids = Object.values(callers.ownerObjects).map((id) => `"${id}"`);
  for (const path of Object.keys(table).filter((route) => /s$/.test(route) && !/\{|transfers/.test(route))) {
    const text = await (await readAs('stranger', path)).text();
    expect(ids.filter((id) => text.includes(id))).toEqual([]);
  }
});

it('tells no member, and no key without `manage`, who else shares and uses the device', async () => {
  const { owner, members, ownerObjects } = callers;
  const emails = [members.operator.email, members.viewer.email, 'nobody@example.test', 'buyer@example.test'];
  const traces = [...emails, 'SN-matrix-1', '198.51.100.', '203.0.113.', ownerObjects['linkId'] ?? ''];
  const paths = Object.keys(table).filter((path) => path.includes('/devices') && !path.endsWith('/transfers'));
  const textFor = async (name: string) => {
    const answers = await Promise.all(paths.map((path) => readAs(name, path)));
    return (await Promise.all(answers.map((response) => response.text()))).join('\n');
  };
  const seenByOwner = await textFor('owner');
  expect(traces.filter((trace) => !seenByOwner.includes(trace))).toEqual([]);
  for (const [name, { userId }] of Object.entries({ ...members, read: owner.user, control: owner.user })) {
    const text = await textFor(name);
    expect(
      traces.filter((trace) => text.includes(trace)),
      name,
    ).toEqual([]);
    const others = [...text.matchAll(/"userId":(\d+)/g)].filter(([, id]) => Number(id) !== userId);
    expect(others, name).toEqual([]);
    expect(text, name).not.toMatch(/"status":"(ownership|sharing|guest_link)"/);
  }
});

it('makes no viewer and no operator of an unclaimed device its owner by the serial number', async () => {
  const { owner, members, device, ownerObjects } = callers;
  for (const member of [members.viewer, members.operator]) {
    const claim = activate(ownerObjects['productKey'] ?? '', await claimTokenOf(member), { deviceSN: 'SN-matrix-1' });
    expect(await claim).toMatchObject({ status: 403, message: 'reactivation_not_allowed', data: null });
  }
  const { data } = await call<{ role: string }>('GET', `/devices/${device.deviceId}`, { token: owner.user.token });
  expect(data.role).toBe('owner');
});

it('leaves nothing of a deleted API key, and what its user made in person', async () => {
  const { owner, stranger, members, ownerObjects } = callers;
  const { productKey = '', deviceId = '' } = ownerObjects;
  await reportDisconnected({ deviceId });
  const key = await createKey(owner.user);
  const { token } = owner.user;
  type Made = Record<'token' | 'invitationId' | 'url' | 'commandId', string>;
  const make = async (path: string, body: object, by: CallOptions = { key }) =>
    (await call<Made>('POST', `/devices/${path}`, { ...by, body })).data;
  const claimTokens = [await make('claim-tokens', {}), await make('claim-tokens', {}, { token })] as const;
  const inviteBy = (user: TestUser, by: CallOptions) =>
    make(`${deviceId}/members`, { email: user.email, role: 'operator' }, by);
  const invitations = [await inviteBy(stranger.user, { key }), await inviteBy(members.viewer, { token })] as const;
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const { url } = await make(`${deviceId}/guest-links`, { command: { action: 'trigger' }, expiresAt });
  const { commandId } = await make(`${deviceId}/control?ttl=3600`, { action: 'toggle', position: 'up' });
  const page = () => send('GET', new URL(url).pathname);
  expect((await page()).status).toBe(200);
  await call('DELETE', `/users/api-keys/${key.keyId}`, { token });
  expect((await page()).status).toBe(410);
  expect(await accept(invitations[0].invitationId, stranger.user)).toMatchObject({ status: 404 });
  expect(await accept(invitations[1].invitationId, members.viewer)).toMatchObject({ status: 200 });
  const claim = (index: 0 | 1) => activate(productKey, claimTokens[index].token, { deviceSN: 'SN-left' });
  expect(await claim(0)).toMatchObject({ message: 'invalid_claim_token', data: null });
  expect(await claim(1)).toMatchObject({ status: 200 });
  await reportConnected({ deviceId });
  const command = () => call('GET', `/devices/${deviceId}/commands/${commandId}`, { token });
  await expect.poll(command).toMatchObject({ data: { state: 'cancelled', reason: 'revoked' } });
});
