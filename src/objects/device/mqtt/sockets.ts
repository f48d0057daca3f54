// A device's own sockets: at most one of them is its session. Logs it in, hands what its packets mean to the device's core, and
// the answers and messages for the device back. Owns no state of the device.
import { digestOf } from '../../../crypto/secrets.ts';
import { readConfig } from '../../../config.ts';
import { connectRefusalOf, type DirectEndReason } from '../../../domain/direct/answer-codes.ts';
import { readLogin } from '../../../domain/direct/connect.ts';
import * as direct from '../../../domain/direct/session.ts';
import type { DirectEnd, DirectStep, SessionRules } from '../../../domain/direct/session.ts';
import type { DirectSessionEnd, OpenSession } from '../../../domain/device/presence/sessions.ts';
import type { DirectTaken } from '../../../domain/device/core/events.ts';
import { matchesFilter, topicOf } from '../../../domain/topics.ts';
import type { ConnectPacket } from '../../../protocol/mqtt-codec/client-packets.ts';
import { topicActions, type TopicAction } from '../../../protocol/mqtt.ts';
import { runsOf } from '../../calls/push-to-relays.ts';
import type { DirectConnection } from '../../mqtt/connection.ts';
import { MqttSockets } from '../../mqtt/sockets.ts';
import { answer, deliver, sortMessages, type DirectDelivery } from './exchange.ts';
import type { RelayPushes } from '../relay-pushes.ts';
import type { StoredDevice } from '../stored-device.ts';

export class DirectSockets extends MqttSockets<TopicAction> {
  readonly #deviceId: string;
  readonly #device: StoredDevice;
  readonly #pushes: RelayPushes;
  #rules: SessionRules<TopicAction> | undefined;

  constructor(ctx: DurableObjectState, env: Env, device: StoredDevice, pushes: RelayPushes) {
    super(ctx, readConfig(env), { deviceId: ctx.id.name });
    this.#deviceId = ctx.id.name ?? '';
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
    const delivery = deliver(connection, session, { topic, payload, commandId });
    if (delivery !== 'too_much_unread') return delivery;
    this.endByService(connection, { reason: delivery });
    return 'busy';
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
    const login = readLogin(packet, this.#deviceId);
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

  /** To the relay, and to the device itself if it subscribed to its own topics (MQTT-3.3.5-1). */
  #pushOn(connection: DirectConnection, step: DirectStep<TopicAction>, outcome: DirectTaken): void {
    const { heard, refusedBecause } = sortMessages(step, outcome);
    if (refusedBecause.length > 0) this.log('info', 'direct messages not accepted', { reasons: refusedBecause });
    const runs = runsOf(this.#deviceId, outcome, heard);
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
