// Writes to a server through each of its ways in, and when each was sent and acknowledged: reports of devices, changes of groups,
// commands for absent devices. Reads afterwards what is there. Says neither what may be lost nor causes faults.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { activateMany, addProduct, type Session, sendCommand, signUp } from '../../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../../rig/clients/api.ts';
import { eventually } from '../../../rig/changes.ts';
import type { ServerRun } from '../../../rig/services/server-run.ts';
import { StrictPublisher } from './strict-publisher.ts';

export type Write = { sentAtMs: number; doneAtMs: number | undefined; isPresent: boolean };

type SentCommand = Write & { deviceId: string; commandId: string };

/** Values 1, 2, 3, ..., each sent again until it is acknowledged. */
type Stream = { name: string; writes: Write[]; read: (session: Session) => Promise<number> };

/** Below the limits of production. */
const pauseMs = { report: 250, group: 300, command: 400 };
const maxCommands = 90;
const arrivesWithinMs = 90_000;

export class ServerLoad {
  readonly owner: Session;
  readonly #streams: Stream[] = [];
  readonly #commands: SentCommand[] = [];
  readonly #publishers: StrictPublisher<{ topic: string; payload: string; value: number }>[] = [];
  readonly #stopping = new AbortController();
  readonly #working: Promise<void>[] = [];

  private constructor(owner: Session) {
    this.owner = owner;
  }

  /** `counts`: devices that report, through the gateway unless `brokerPort` says otherwise, groups, devices that are away. */
  static async start(
    server: ServerRun,
    counts: { direct: number; viaBroker: number; groups: number; absent: number },
    brokerPort = 0,
  ): Promise<ServerLoad> {
    const load = new ServerLoad(await signUp((credentials) => connectApi(server.url, credentials)));
    const { api } = load.owner;
    const productKey = await addProduct(load.owner);
    const reporting = counts.direct + counts.viaBroker;
    const serials = Array.from({ length: reporting + counts.absent }, (_, index) => `LOAD-${index}`);
    const devices = await activateMany(api, productKey, serials);
    const gatewayPort = Number(server.settings['GATEWAY_PORT']);
    for (const [index, device] of devices.slice(0, reporting).entries()) {
      const isDirect = index < counts.direct;
      const port = isDirect ? gatewayPort : brokerPort;
      await load.#report(device, () => connect({ port, host: '127.0.0.1' }), isDirect);
    }
    for (let group = 0; group < counts.groups; group += 1) {
      const { groupId } = await dataOf(api.groups.$post({ json: { name: '0', tag: 'load' } }));
      const param = { groupId };
      load.#write(`group ${groupId}`, pauseMs.group, {
        write: (value) => dataOf(api.groups[':groupId'].$patch({ param, json: { name: String(value) } })),
        read: async (session) => Number((await dataOf(session.api.groups[':groupId'].$get({ param }))).name),
      });
    }
    for (const { deviceId } of devices.slice(reporting)) load.#working.push(load.#command(deviceId));
    return load;
  }

  get acknowledged(): number {
    return this.#all.filter(({ doneAtMs }) => doneAtMs !== undefined).length;
  }

  /** Resolves when no write is under way any more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#working);
    await Promise.all(this.#publishers.map((publisher) => publisher.drained(arrivesWithinMs)));
    this.#publishers.forEach((publisher) => publisher.close());
  }

  /** Notes which writes a server has. With `isWaiting`, it may take its time for what was acknowledged. */
  async look(server: ServerRun, isWaiting: boolean): Promise<Write[]> {
    const { token, api } = await signUp((credentials) => connectApi(server.url, credentials), this.owner);
    const session = { ...this.owner, token, api };
    for (const { name, writes, read } of this.#streams) {
      const last = writes.findLastIndex(({ doneAtMs }) => doneAtMs !== undefined) + 1;
      let value = 0;
      const hasArrived = async () => (value = await read(session)) >= last;
      if (isWaiting)
        await eventually(() => `${name} has ${last}, it has ${value}`, hasArrived, arrivesWithinMs).catch(String);
      else await hasArrived();
      if (value > writes.length) throw new Error(`${name} has ${value}, which was never sent`);
      for (const [index, write] of writes.entries()) write.isPresent = index < value;
    }
    for (const [deviceId, commands] of Map.groupBy(this.#commands, (command) => command.deviceId)) {
      const page = { param: { deviceId }, query: { size: '100' } };
      const { list } = await dataOf(session.api.devices[':deviceId'].commands.$get(page));
      const ids = new Set(list.map(({ commandId }) => commandId));
      for (const command of commands) command.isPresent = ids.has(command.commandId);
    }
    return this.#all;
  }

  get #all(): Write[] {
    return [...this.#streams.flatMap(({ writes }) => writes), ...this.#commands];
  }

  async #report(
    { deviceId, topics, mqtt }: Awaited<ReturnType<typeof activateMany>>[number],
    dial: () => ReturnType<typeof connect>,
    isDirect: boolean,
  ): Promise<void> {
    const param = { deviceId };
    let accept = (): void => undefined;
    const events = { onAttempt: () => undefined, onAccepted: () => accept() };
    const publisher = await StrictPublisher.connect<{ topic: string; payload: string; value: number }>(
      dial,
      events,
      isDirect ? mqtt : undefined,
    );
    this.#publishers.push(publisher);
    this.#write(`device ${deviceId}`, pauseMs.report, {
      write: (value) =>
        new Promise<void>((resolve) => {
          accept = resolve;
          const payload = JSON.stringify({ method: 'thing.event.property.post', params: { n: value } });
          publisher.publish({ topic: topics.propertyPost, payload, value });
        }),
      read: async ({ api }) => {
        const { list } = await dataOf(api.devices[':deviceId'].properties.$get({ param }));
        return Number(list.find(({ name }) => name === 'n')?.value ?? 0);
      },
    });
  }

  #write(
    name: string,
    waitMs: number,
    { write, read }: { write: (value: number) => Promise<unknown>; read: Stream['read'] },
  ): void {
    const writes: Write[] = [];
    this.#streams.push({ name, writes, read });
    this.#working.push(
      this.#repeat(waitMs, async () => {
        const noted: Write = { sentAtMs: performance.now(), doneAtMs: undefined, isPresent: false };
        writes.push(noted);
        while (!(await succeeds(write(writes.length)))) await sleep(waitMs);
        noted.doneAtMs = performance.now();
      }),
    );
  }

  /** A device keeps a command that it has not got, and lists the last hundred. */
  #command(deviceId: string): Promise<void> {
    let sent = 0;
    return this.#repeat(pauseMs.command, async () => {
      if (sent === maxCommands) return;
      sent += 1;
      const sentAtMs = performance.now();
      const json = { action: 'toggle' as const, position: 'up' as const };
      const sending = sendCommand(this.owner.api, { deviceId }, json, { ttl: '3600' });
      const commandId = await sending.then(
        (receipt) => receipt.commandId,
        () => undefined,
      );
      if (commandId === undefined) return;
      this.#commands.push({ sentAtMs, doneAtMs: performance.now(), isPresent: false, deviceId, commandId });
    });
  }

  async #repeat(waitMs: number, work: () => Promise<void>): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await work();
      await sleep(waitMs);
    }
  }
}

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}
