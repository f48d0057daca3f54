// Devices with a session and no record in D1, for tests of the messaging paths, which never touch D1. Asserts nothing.
import { env } from 'cloudflare:workers';
import { readConfig } from '../../../src/config.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { createMessagingPassword } from '../../../src/crypto/messaging-password.ts';
import { createId, digestOf } from '../../../src/crypto/secrets.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import { messagingName, type DeviceIdentity } from '../../../src/domain/topics.ts';
import type { InboundMessage, MessageResult } from '../../../src/domain/device/messages/inbox.ts';

export type TestDevice = DeviceIdentity & { name: string; password: string };

/** @param password another one than the service would issue */
export async function provisionDevice({
  ownerId = 1,
  productKey = 'switch',
  password: chosen = '',
} = {}): Promise<TestDevice> {
  const deviceId = createId('dev_', 8);
  const { messagingSecrets } = readConfig(env);
  const password = chosen || (await createMessagingPassword(messagingSecrets, { productKey, deviceId }));
  const facts = factsOf({ productKey, passwordDigest: await digestOf(password), ownerId });
  await sessionOf(deviceId).provision({ ...facts, secretDigest: await digestOf('sk_of-the-device') });
  return { productKey, deviceId, name: messagingName({ productKey, deviceId }), password };
}

/** What the session of a device of an unclaimed product is provisioned with. */
export const factsOf = ({
  productKey,
  passwordDigest = 'x',
  ownerId = 1,
}: {
  productKey: string;
  passwordDigest?: string;
  ownerId?: number;
}) => ({
  facts: {
    ...{ productKey, ownerId, productOwnerId: ownerId, claimedAtMs: null, name: 'A switch', controlMode: 'toggle' },
    ...{ offlineGraceSeconds: 0, productChangedAtMs: 0, isDisabled: false, reactivation: null },
  },
  ...{ secretDigest: 'x', passwordDigest, givenSecretDigest: undefined, address: null },
  ...{ defaultName: 'A switch', claimantId: undefined, lacksCode: false, wasActivated: false },
});

export function sessionOf(deviceId: string) {
  return env.DEVICE_SESSION.getByName(deviceId);
}

type Named = { deviceId: string };

/** As user 1 sees it. */
export const statusOf = async ({ deviceId }: Named) => unwrap(await sessionOf(deviceId).status(inPerson(1)));

/** As user 1 sees them, newest first. */
export const eventsOf = async ({ deviceId }: Named) =>
  unwrap(await sessionOf(deviceId).events(inPerson(1), { page: 1, size: 20 })).list;

/** Reports a session as a broker does. */
export const reportConnected = ({ deviceId }: Named, sessionStartedAtMs = Date.now()) =>
  sessionOf(deviceId).decide({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs } });

/** @param sessionStartedAtMs null: the broker does not name the session */
export const reportDisconnected = (
  { deviceId }: Named,
  sessionStartedAtMs: number | null = null,
  reason = 'tcp_closed',
  endedAtMs = Date.now(),
) => {
  const report = { kind: 'disconnected', sessionStartedAtMs, endedAtMs, reason } as const;
  return sessionOf(deviceId).decide({ kind: 'connection_reported', report });
};

/** Registers a relay shard with a device for a subscription of a user. */
export const requestSubscription = (
  { productKey, deviceId }: DeviceIdentity,
  shard: string,
  filter = '#',
  userId = 1,
) => sessionOf(deviceId).decide({ kind: 'subscription_requested', actor: inPerson(userId), productKey, shard, filter });

/** Revokes the password of a device of user 1. */
export const replacePassword = ({ deviceId }: Named, passwordDigest = 'digest-of-another-password') =>
  sessionOf(deviceId).decide({ kind: 'credentials_replaced', actor: inPerson(1), passwordDigest, address: null });

/** Hands messages to a device's session as the uplink does; the results in the order of the messages. */
export async function ingest(
  session: ReturnType<typeof sessionOf>,
  productKey: string,
  spoolId: string,
  messages: (Omit<InboundMessage, 'isSoleReader'> & { isSoleReader?: boolean })[],
): Promise<MessageResult[]> {
  const { others } = await session.ingest(
    productKey,
    spoolId,
    messages.map((message) => ({ isSoleReader: false, ...message })),
  );
  return messages.map((_, position) => {
    const other = others.find((one) => one.position === position);
    if (other === undefined) return { result: 'accepted' };
    const result: MessageResult & { position?: number } = { ...other };
    delete result.position;
    return result;
  });
}
