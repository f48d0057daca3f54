// One webhook endpoint: it signs the events of devices and posts them, in order for each device. The rings of the devices are its
// outbox: it stores its settings, since when the receiver fails, and the last deliveries. It must not read a device.
import { DurableObject } from 'cloudflare:workers';
import PQueue from 'p-queue';
import { readConfig } from '../../config.ts';
import { openText, sealText } from '../../crypto/sealed-text.ts';
import { createId } from '../../crypto/secrets.ts';
import { createWebhookSecret } from '../../crypto/webhook-signature.ts';
import { isJsonObject, parseJson } from '../../domain/json.ts';
import { rememberNewest } from '../../domain/newest.ts';
import type { Notice } from '../../domain/notices.ts';
import { accept, refuse, type Outcome, type Refusal } from '../../domain/refusal.ts';
import { dayMs, minuteMs, secondMs } from '../../domain/time.ts';
import { failAgain, pauseAfter, spreadAfter, type Failing } from './pauses.ts';
import type { EventGap, OutgoingEvent, TakeAnswer } from '../../domain/webhooks/webhooks.ts';
import { describeError, log } from '../../log.ts';
import type { WebhookEnd } from '../../protocol/vocabulary.ts';
import { callFleetDirectory, callInbox } from '../calls/stubs.ts';
import { within } from '../calls/within.ts';
import { answerWithinMs, isDelivered, postMessage, type Attempt, type Message } from './post-message.ts';

/** No request of a batch begins later. What is left comes with the next call. */
const beginWithinMs = 5 * secondMs;
/** An object that waits for an answer may end ten seconds after its last event: its device is answered before. */
const answerDeviceWithinMs = 8 * secondMs;
const askForLateAfterMs = 4 * secondMs;
const maxLate = 1_000;
const maxUnderWay = 8;
const maxBatches = 100;
const busyPauseMs = 10 * secondMs;
const formerSecretLifeMs = dayMs;
const keptDeliveries = 100;
/** If all of them succeeded: a row an event would be a third of its price. */
const saveDeliveriesEveryMs = 10 * minuteMs;
/** The receiver is down, and not one message wrong. */
const failuresUntilPause = maxUnderWay;

type End = { because: WebhookEnd; atMs: number };
type SealedSecret = { sealed: string; untilMs: number | null };
type Settings = { userId: number; url: string; secrets: SealedSecret[]; end: End | null };
export type ExportedSettings = Pick<Settings, 'end'> & { secrets: { secret: string; untilMs: number | null }[] };
type Receiver = Pick<Settings, 'url' | 'secrets'>;
type Delivery = Omit<Attempt, 'signed' | 'signature' | 'answer'> & { deviceId: string; type: string };
/** A device's message; `upTo` is the last number that it tells of. */
type Numbered = Message & { upTo: number };

export class WebhookEndpoint extends DurableObject<Env> {
  readonly #webhookId = this.ctx.id.name ?? '';
  readonly #queue = new PQueue({
    concurrency: maxUnderWay,
    interval: secondMs,
    intervalCap: readConfig(this.env).limits.webhookDeliveriesPerSecond,
    // Fixed windows have a timer for two seconds after each request: the object would be charged meanwhile.
    strict: true,
  });
  readonly #kv = this.ctx.storage.kv;
  /** By device and first number: batches that took longer than the call. The device calls again for the answer. */
  readonly #late = new Map<string, Promise<TakeAnswer>>();
  #batches = 0;
  #failuresInRow = 0;
  #isEndTold = false;
  #isProbing = false;
  #deliveries: Delivery[] | undefined;
  #savedAtMs = 0;

  /** Makes the endpoint, or moves it to another address: the receiver there has to agree. The answer has a new endpoint's secret. */
  async open(userId: number, url: string): Promise<Outcome<{ secret: string | null }>> {
    const former = this.#settings;
    const secret = former === undefined ? createWebhookSecret() : null;
    const secrets = secret === null ? (former?.secrets ?? []) : [await this.#seal(secret)];
    const challenge = createId('', 32);
    const attempt = await this.#ask({ url, secrets }, 'endpoint.challenge', { challenge });
    const answer = parseJson(attempt.answer);
    if (!isDelivered(attempt) || !isJsonObject(answer) || answer['challenge'] !== challenge) {
      const came = isDelivered(attempt) ? 'another body' : (attempt.status ?? attempt.problem);
      const problem = `has to answer endpoint.challenge with {"challenge": ...} within 8 s; came: ${came}`;
      return refuse({ kind: 'invalid_input', path: 'url', problem });
    }
    // The secret may have been replaced meanwhile.
    this.#kv.put<Settings>('settings', { userId, url, secrets: this.#settings?.secrets ?? secrets, end: null });
    if (former?.end) await this.#notify(userId, null);
    this.#kv.delete('failing');
    this.#failuresInRow = 0;
    this.#isEndTold = false;
    return accept({ secret });
  }

  /** The former secret signs as well for a day. */
  async replaceSecret(): Promise<Outcome<{ secret: string }>> {
    const secret = createWebhookSecret();
    const sealed = await this.#seal(secret);
    const settings = this.#settings;
    if (settings === undefined) return refuse(this.#notFound);
    const [current] = settings.secrets;
    const former = current === undefined ? [] : [{ ...current, untilMs: Date.now() + formerSecretLifeMs }];
    this.#kv.put<Settings>('settings', { ...settings, secrets: [sealed, ...former] });
    return accept({ secret });
  }

  /** With its secrets, for another deployment. A secret that nobody here can open is left out. */
  async exportSettings(): Promise<ExportedSettings> {
    const { secrets = [], end = null } = this.#settings ?? {};
    const opened = secrets.map(async ({ sealed, untilMs }) => {
      const secret = await this.#open(sealed);
      return secret === undefined ? [] : [{ secret, untilMs }];
    });
    return { end, secrets: (await Promise.all(opened)).flat() };
  }

  /** The receiver has agreed where it comes from. */
  async importSettings(userId: number, url: string, { secrets, end }: ExportedSettings): Promise<void> {
    const sealed = secrets.map(async ({ secret, untilMs }) => ({ ...(await this.#seal(secret)), untilMs }));
    this.#kv.put<Settings>('settings', { userId, url, secrets: await Promise.all(sealed), end });
  }

  async delete(): Promise<void> {
    this.#deliveries = [];
    await this.ctx.storage.deleteAll();
  }

  /** One message beside all others, now: pauses and the rate do not count. */
  async sendTest(): Promise<Outcome<Omit<Attempt, 'answer'>>> {
    const settings = this.#settings;
    if (settings === undefined) return refuse(this.#notFound);
    const { answer: _, ...shown } = await this.#ask(settings, 'endpoint.test', { webhookId: this.#webhookId });
    return accept(shown);
  }

  /** Newest first. Successes of the last ten minutes may be missing after the object slept. */
  listDeliveries(): Delivery[] {
    return this.#kept.toReversed();
  }

  /**
   * Delivers a part of the events, in order. The device moves its cursor by the answer: a lost answer only repeats events.
   * @param failures how often in a row the receiver did not take the first of them
   */
  async take(
    deviceId: string,
    events: readonly OutgoingEvent[],
    gap: EventGap | null,
    failures = 0,
  ): Promise<TakeAnswer> {
    const messages = messagesOf(deviceId, events, gap);
    const settings = this.#settings;
    if (settings?.end) await this.#tellEnd(settings, settings.end);
    const key = `${deviceId} ${messages[0]?.upTo}`;
    const late = this.#late.get(key);
    const nowMs = Date.now();
    const isBusy = late === undefined && this.#batches >= maxBatches;
    if (isBusy) return { laterAtMs: spreadAfter(nowMs + busyPauseMs, nowMs) };
    const batch = late ?? this.#deliver(deviceId, messages, failures).finally(() => (this.#batches -= 1));
    if (late === undefined) this.#batches += 1;
    this.#late.delete(key);
    const answer = await within(answerDeviceWithinMs, batch);
    if (answer !== undefined) return answer;
    rememberNewest(this.#late, key, batch, maxLate);
    return { laterAtMs: Date.now() + askForLateAfterMs };
  }

  async #deliver(deviceId: string, messages: readonly Numbered[], formerFailures: number): Promise<TakeAnswer> {
    const endsAtMs = Date.now() + beginWithinMs;
    let upTo: number | undefined;
    let failures = formerFailures;
    for (const message of messages) {
      // Those that are told to come later take nobody's turn.
      const answer =
        this.#refusal(endsAtMs) ??
        (await this.#queue.add(async () => this.#refusal(endsAtMs) ?? this.#send(deviceId, message, failures)));
      if (answer === 'gone') return answer;
      if (answer?.failures !== undefined && upTo !== undefined) return { ...answer, upTo };
      if (answer !== undefined) return upTo === undefined ? answer : { upTo };
      upTo = message.upTo;
      failures = 0;
    }
    return { upTo: upTo ?? 0 };
  }

  #refusal(endsAtMs: number): TakeAnswer | undefined {
    if (this.#settings === undefined) return 'gone';
    if (this.#settings.end !== null) return {};
    const nowMs = Date.now();
    if (nowMs >= endsAtMs) return { laterAtMs: spreadAfter(nowMs, nowMs) };
    const laterAtMs = this.#laterAtMs(nowMs);
    return laterAtMs === undefined ? undefined : { laterAtMs };
  }

  /** Undefined if the receiver has the message. */
  async #send(deviceId: string, message: Numbered, failures: number): Promise<TakeAnswer | undefined> {
    const settings = this.#settings;
    if (settings === undefined) return 'gone';
    const isProbe = this.#pausedUntilMs !== undefined;
    this.#isProbing ||= isProbe;
    try {
      const attempt = await this.#post(settings, message);
      this.#note(deviceId, message.type, attempt);
      if (attempt.status === 410) return await this.#disable('receiver_gone');
      if (!isDelivered(attempt)) return await this.#fail(failures + 1);
      if (this.#failing !== undefined) this.#kv.delete('failing');
      this.#failuresInRow = 0;
      return undefined;
    } finally {
      if (isProbe) this.#isProbing = false;
    }
  }

  /** Undefined while the receiver takes some messages: then only the device waits whose message failed. */
  get #pausedUntilMs(): number | undefined {
    const failing = this.#failing;
    const isDown = failing !== undefined && (failing.failures > 1 || this.#failuresInRow >= failuresUntilPause);
    return isDown ? failing.retryAtMs : undefined;
  }

  #laterAtMs(nowMs: number): number | undefined {
    const pausedUntilMs = this.#pausedUntilMs;
    if (pausedUntilMs === undefined) return undefined;
    if (pausedUntilMs > nowMs) return spreadAfter(pausedUntilMs, nowMs);
    // One request at a time finds out whether the receiver is back.
    return this.#isProbing ? spreadAfter(nowMs + answerWithinMs, nowMs) : undefined;
  }

  /** @param failures in a row of this message */
  async #fail(failures: number): Promise<TakeAnswer> {
    if (this.#settings === undefined) return 'gone';
    const nowMs = Date.now();
    this.#failuresInRow += 1;
    const former = this.#failing;
    // Requests that were under way together are one failure.
    const next = former !== undefined && nowMs < former.retryAtMs ? former : failAgain(former, nowMs);
    if (next === undefined) return this.#disable('failed_for_days');
    if (next !== former) this.#kv.put('failing', next);
    // The device whose message failed comes first, without a spread.
    return { laterAtMs: Math.max(nowMs + pauseAfter(failures), next.retryAtMs), failures };
  }

  /** Until its user opens it again, devices keep what they have for it. */
  async #disable(because: WebhookEnd): Promise<TakeAnswer> {
    const settings = this.#settings;
    if (settings === undefined) return 'gone';
    const end = { because, atMs: Date.now() };
    this.#kv.put<Settings>('settings', { ...settings, end });
    await this.#tellEnd(settings, end);
    return {};
  }

  /** If it fails, the next device that calls starts it again. */
  async #tellEnd({ userId, url }: Settings, { because, atMs }: End): Promise<void> {
    if (this.#isEndTold) return;
    this.#isEndTold = true;
    const about = { webhookId: this.#webhookId, userId, because };
    log('warn', 'webhook disabled', about);
    try {
      await callFleetDirectory(this.env, userId, 'idempotent').disableWebhook(userId, this.#webhookId, because);
      const detail = { webhookId: this.#webhookId, url, because };
      const notice = { deviceId: null, deviceName: null, atMs, detail, again: null };
      await this.#notify(userId, { cause: 'webhook_disabled', ...notice });
    } catch (error) {
      this.#isEndTold = false;
      log('error', 'webhook not disabled everywhere', { ...about, ...describeError(error) });
    }
  }

  async #notify(userId: number, notice: Notice | null): Promise<void> {
    await callInbox(this.env, userId, 'idempotent').change([{ key: `webhook ${this.#webhookId}`, notice }]);
  }

  /** A message that a user waits for. */
  #ask(to: Receiver, type: string, data: Message['data']): Promise<Attempt> {
    return this.#post(to, { id: `msg_${createId('', 24)}`, type, timeMs: Date.now(), data, isForUser: true });
  }

  async #post({ url, secrets }: Receiver, message: Message): Promise<Attempt> {
    const valid = secrets.filter(({ untilMs }) => untilMs === null || untilMs > Date.now());
    const opened = (await Promise.all(valid.map(({ sealed }) => this.#open(sealed)))).flatMap((secret) => secret ?? []);
    return postMessage(url, opened, message);
  }

  async #seal(secret: string): Promise<SealedSecret> {
    const [newest = ''] = readConfig(this.env).sealingSecrets;
    return { sealed: await sealText(secret, newest, this.#webhookId, 'webhook'), untilMs: null };
  }

  /** A secret under an older sealing secret is sealed anew, because that one will be removed. */
  async #open(sealed: string): Promise<string | undefined> {
    const { sealingSecrets } = readConfig(this.env);
    const open = (under: readonly string[]) => openText(sealed, under, this.#webhookId, 'webhook');
    const secret = await open(sealingSecrets.slice(0, 1));
    if (secret !== undefined) return secret;
    const former = await open(sealingSecrets.slice(1));
    if (former === undefined) return undefined;
    const { sealed: anew } = await this.#seal(former);
    const settings = this.#settings;
    if (settings === undefined) return former;
    const secrets = settings.secrets.map((other) => (other.sealed === sealed ? { ...other, sealed: anew } : other));
    this.#kv.put<Settings>('settings', { ...settings, secrets });
    return former;
  }

  get #notFound(): Refusal {
    return { kind: 'not_found', what: 'webhook', id: this.#webhookId };
  }

  get #settings(): Settings | undefined {
    return this.#kv.get<Settings>('settings');
  }

  get #failing(): Failing | undefined {
    return this.#kv.get<Failing>('failing');
  }

  get #kept(): Delivery[] {
    if (this.#deliveries !== undefined) return this.#deliveries;
    this.#deliveries = this.#kv.get<Delivery[]>('deliveries') ?? [];
    this.#savedAtMs = Date.parse(this.#deliveries.at(-1)?.at ?? '') || 0;
    return this.#deliveries;
  }

  /** One row for all of them. Without a timer: an object that waits for one is charged all the while. */
  #note(deviceId: string, type: string, attempt: Attempt): void {
    const { messageId, at, status, problem, tookMs } = attempt;
    const kept = [...this.#kept, { messageId, deviceId, type, at, status, problem, tookMs }].slice(-keptDeliveries);
    this.#deliveries = kept;
    const mayWait = isDelivered(attempt) && Date.now() < this.#savedAtMs + saveDeliveriesEveryMs;
    // Not if the webhook was deleted meanwhile.
    if (mayWait || this.#settings === undefined) return;
    this.#savedAtMs = Date.now();
    this.#kv.put('deliveries', kept);
  }
}

/** The ids follow from the numbers: a message that is sent again has the same one. */
function messagesOf(deviceId: string, events: readonly OutgoingEvent[], gap: EventGap | null): Numbered[] {
  const ofEvents = events.map(({ number, type, time, data }) => ({
    id: `msg_${deviceId}_${number}`,
    type,
    timeMs: time,
    data: { deviceId, number, ...data },
    upTo: number,
  }));
  if (gap === null) return ofEvents;
  const { from, to } = gap;
  const timeMs = events[0]?.time ?? Date.now();
  return [
    { id: `msg_${deviceId}_${from}-${to}`, type: 'gap', timeMs, data: { deviceId, from, to }, upTo: to },
    ...ofEvents,
  ];
}
