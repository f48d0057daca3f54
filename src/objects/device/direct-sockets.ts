// A device's own sockets: at most one of them is its session. Logs it in, hands what its packets mean to the device's core and to
// others, and the answers and messages for the device back. Owns no state of the device.
import { digestOf } from '../../crypto/secrets.ts';
import { readConfig } from '../../config.ts';
import { connectRefusalOf, pubackCodeOf, type DirectEndReason } from '../../domain/direct/answer-codes.ts';
import { readLogin } from '../../domain/direct/connect.ts';
import { directLimits } from '../../domain/direct/direct-limits.ts';
import * as direct from '../../domain/direct/session.ts';
import type { DirectEnd, DirectStep, SessionRules } from '../../domain/direct/session.ts';
import type { DirectSessionEnd, OpenSession } from '../../domain/device/presence/sessions.ts';
import type { DirectTaken } from '../../domain/device/core/events.ts';
import { matchesFilter, topicOf } from '../../domain/topics.ts';
import { droppedReason } from '../../protocol/bridge.ts';
import { join } from '../../protocol/mqtt-codec/byte-cursor.ts';
import type { ConnectPacket } from '../../protocol/mqtt-codec/client-packets.ts';
import { encodePuback, encodePublish } from '../../protocol/mqtt-codec/server-packets.ts';
import { topicActions, type TopicAction } from '../../protocol/mqtt.ts';
import { runsOf, type RelayMessage } from '../calls/push-to-relays.ts';
import type { DirectConnection } from '../mqtt/connection.ts';
import { MqttSockets } from '../mqtt/sockets.ts';
import type { RelayPushes } from './relay-pushes.ts';
import type { StoredDevice } from './stored-device.ts';

/** `written`: to a device that subscribed. Undefined without a session. */
export type DirectDelivery = 'written' | 'not_subscribed' | 'busy' | undefined;

export class DirectSockets extends MqttSockets<TopicAction> {
  readonly #device: StoredDevice;
  readonly #pushes: RelayPushes;
  #rules: SessionRules<TopicAction> | undefined;

  constructor(device: StoredDevice, pushes: RelayPushes) {
    super(device.ctx, readConfig(device.env), device.about);
    this.#device = device;
    this.#pushes = pushes;
  }

  openSession(): OpenSession | null {
    const session = this.#open()?.session;
    if (session === undefined) return null;
    const { startedAtMs, lastPacketAtMs } = session;
    return { startedAtMs, lastPacketAtMs, silentFromMs: direct.silentFromMs(session) };
  }

  /** Writes a message to the device's session. `commandId`: what its acknowledgement is reported with. */
  publish(topic: string, payload: string, commandId: string | null): DirectDelivery {
    const open = this.#open();
    if (open === undefined) return undefined;
    const { connection, session } = open;
    const qos = direct.grantedQos(session, topic);
    if (qos === undefined) return 'not_subscribed';
    const noted = qos === 1 ? direct.notePublished(session, commandId, directLimits.inFlight) : undefined;
    if (qos === 1 && noted === undefined) return 'busy';
    const bytes = encodePublish(session.level, topic, payload, noted?.packetId ?? 0);
    // MQTT5-3.1.2-24
    if (bytes.length > session.maxPacketBytes) return 'busy';
    const unreadBytes = session.unreadBytes + (qos === 0 ? bytes.length : 0);
    if (unreadBytes > directLimits.unreadBytes) {
      this.endByService(connection, { reason: 'too_much_unread' });
      return 'busy';
    }
    connection.session = { ...(noted?.session ?? session), unreadBytes };
    connection.save();
    return connection.send(bytes) ? 'written' : undefined;
  }

  end(reason: DirectEndReason): void {
    const open = this.#open();
    if (open !== undefined) this.close(open.connection, { reason });
  }

  protected override rules(): SessionRules<TopicAction> | undefined {
    const identity = this.#device.identity();
    return identity && (this.#rules ??= direct.rulesOf(identity));
  }

  protected override async logIn(connection: DirectConnection, packet: ConnectPacket): Promise<void> {
    const { level } = packet;
    const login = readLogin(packet, this.#device.deviceId);
    if ('refusal' in login) {
      this.refuse(connection, level, login.refusal);
      return;
    }
    const passwordDigest = await digestOf(login.password);
    // Its time may have passed.
    if (!this.isConnecting(connection)) return;
    const before = this.#open();
    if (before !== undefined) this.drain(before.connection);
    const present = this.#open();
    const outcome = this.#device.decide({
      kind: 'direct_connected',
      productKey: login.device.productKey,
      isClientIdRight: login.isClientIdRight,
      matchedDigest: this.#device.findDigest(passwordDigest),
      address: connection.address === '' ? null : connection.address,
      takenOver: present === undefined ? null : { will: present.session.will },
    });
    if (!outcome.ok) {
      this.refuse(connection, level, connectRefusalOf(outcome.refusal), outcome.refusal);
      return;
    }
    if (present !== undefined) this.close(present.connection, { reason: 'taken_over' });
    this.begin(connection, direct.beginSession(packet, login.will, outcome.value.startedAtMs));
  }

  protected override take(connection: DirectConnection, step: DirectStep<TopicAction>): void {
    const { messages, delivered, granted, end, session } = step;
    const identity = this.#device.identity();
    const commands = identity && topicOf(identity, topicActions.propertySet);
    const hasSubscribed = commands !== undefined && granted.some(({ filter }) => matchesFilter(filter, commands));
    const isForDevice = messages.length + delivered.length > 0 || hasSubscribed || end !== undefined;
    if (!isForDevice) {
      answer(connection, step, undefined);
      return;
    }
    const { startedAtMs } = session;
    const outcome = this.#device.decide(
      {
        kind: 'direct_packets_received',
        startedAtMs,
        messages: messages.map(({ action, payload }) => ({ action, payload })),
        delivered,
        hasSubscribed,
        end: end === undefined ? null : endOf(connection, end, Date.now()),
      },
      (result) => {
        answer(connection, step, result);
        if (end !== undefined) this.close(connection, end);
      },
    );
    this.#pushOn(connection, step, outcome);
  }

  /**
   * To the relay, and to the device itself if it subscribed to its own topics (MQTT-3.3.5-1): what the device sent, also what the
   * service cannot read, but nothing of too many.
   */
  #pushOn(connection: DirectConnection, step: DirectStep<TopicAction>, outcome: DirectTaken): void {
    const heard: RelayMessage[] = [];
    const reasons = new Set<string>();
    for (const [index, { topic, payload }] of step.messages.entries()) {
      const reason = reasonOf(outcome, index);
      if (reason !== undefined) reasons.add(reason);
      const { result } = outcome.results[index] ?? {};
      const isTooMuch = reason === droppedReason || reason === 'session_revoked';
      if (payload === undefined || result === 'ignored' || isTooMuch) continue;
      heard.push({ topic, payload, isJson: result === 'accepted' });
    }
    if (reasons.size > 0) this.log('info', 'direct messages not accepted', { reasons: [...reasons] });
    const runs = runsOf(this.#device.deviceId, outcome, heard);
    for (const { topic, payloads } of runs) {
      if (!connection.isOpen() || direct.grantedQos(step.session, topic, true) === undefined) continue;
      for (const payload of payloads) this.publish(topic, payload, null);
    }
    this.#pushes.add(runs.map((run) => ({ run, subscriptions: outcome.subscriptions })));
  }

  #open() {
    return this.open()[0];
  }

  protected override ended(connection: DirectConnection, end: DirectEnd): void {
    this.#device.decide({ kind: 'direct_ended', end: endOf(connection, end, Date.now()) });
  }
}

function endOf({ session }: DirectConnection, { reason, topic }: DirectEnd, nowMs: number): DirectSessionEnd {
  return { startedAtMs: session?.startedAtMs ?? 0, reason, topic, will: session?.will ?? null, endedAtMs: nowMs };
}

function answer(connection: DirectConnection, step: DirectStep<TopicAction>, outcome: DirectTaken | undefined): void {
  const { level } = step.session;
  const parts = step.replies.map((reply) =>
    reply.kind === 'bytes'
      ? reply.bytes
      : encodePuback(level, reply.packetId, pubackCodeOf(reasonOf(outcome, reply.message))),
  );
  if (parts.length > 0) connection.send(join(parts));
}

function reasonOf(outcome: DirectTaken | undefined, index: number): string | undefined {
  const result = outcome?.results[index];
  return result !== undefined && 'reason' in result ? result.reason : undefined;
}
