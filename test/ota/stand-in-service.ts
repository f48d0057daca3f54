// Stands in for the service until these tests run against the real one: a broker and an HTTP server that serve one image by the wire,
// with faults on request.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { SignedManifest } from '../../client/sign/firmware.ts';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { Changes } from '../../rig/changes.ts';
import { LoopbackServer } from '../../rig/loopback-server.ts';

const token = 'T'.repeat(50);
const getLength = 600;
const dataLength = 75;

export type Inform = { version: string; slot: string; keys: string[] };
export type Progress = { step: string; percent?: number; error?: string };
export type Get = { offset: number; length: number; manifest?: boolean };
type Offered = { version: string; size: number; hash: string; url: string };

export type Faults = {
  /** In place of the two lines of the manifest resource. */
  manifest?: (lines: string) => string;
  /** In place of the image. */
  image?: Buffer;
  offer?: Partial<Offered>;
  /** True if it has answered a request for the image itself. */
  answerImage?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** In place of what answers a get; a string is sent as it is. */
  answerGet?: (get: Get, answers: object[]) => (object | string)[];
};

export class StandInService extends LoopbackServer {
  readonly changes = new Changes();
  readonly name = 'pk&dev_1';
  readonly informs: Inform[] = [];
  readonly progress: Progress[] = [];
  longestPayload = 0;
  isOpen = true;
  readonly #broker: Awaited<ReturnType<typeof startAedes>>;
  #lines = '';
  #image: Buffer = Buffer.alloc(0);
  #offered: Offered | undefined;
  #faults: Faults = {};

  private constructor(broker: Awaited<ReturnType<typeof startAedes>>) {
    super(createServer((request, response) => this.#answer(request, response)));
    this.#broker = broker;
  }

  static async start(image: Buffer, signed: SignedManifest, faults: Faults = {}): Promise<StandInService> {
    const service = new StandInService(await startAedes());
    service.open(image, signed, faults);
    await service.#listenToDevice();
    return service.listen();
  }

  get mqttPort(): number {
    return this.#broker.port;
  }

  get api(): string {
    return this.url;
  }

  override async stop(): Promise<void> {
    await this.#broker.stop();
    await super.stop();
  }

  untilProgress(step: string): Promise<void> {
    return this.changes.until(`progress ${step}`, () => this.progress.some((one) => one.step === step));
  }

  /** Offers an image in each session that begins, until its update ends. */
  open(image: Buffer, signed: SignedManifest, faults: Faults = {}): void {
    const lines = `${signed.manifest}\n${signed.signature}\n`;
    const { version, size, sha256 } = JSON.parse(signed.manifest) as { version: string; size: number; sha256: string };
    this.#faults = faults;
    this.#image = faults.image ?? image;
    this.#lines = faults.manifest?.(lines) ?? lines;
    this.#offered = { version, size, hash: sha256.slice(0, 16), url: `/f/${token}`, ...faults.offer };
    this.isOpen = true;
  }

  /** To a device that is connected, without waiting for its next session. */
  sendOffer(): void {
    if (this.#offered !== undefined) this.send('upgrade', this.#offered);
  }

  close(): void {
    this.isOpen = false;
    this.changes.note();
  }

  send(name: string, payload: object | string): void {
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
    const topic = `/sys/pk/dev_1/thing/ota/${name}`;
    this.#broker.aedes.publish(
      { cmd: 'publish', topic, payload: Buffer.from(text), qos: 0, retain: false, dup: false },
      () => undefined,
    );
  }

  async #listenToDevice(): Promise<void> {
    const { aedes } = this.#broker;
    await new Promise<void>((resolve) => {
      aedes.subscribe(
        '/sys/pk/dev_1/thing/ota/+',
        (packet, done) => {
          this.#take(packet.topic.split('/').at(-1) ?? '', packet.payload.toString());
          done();
        },
        resolve,
      );
    });
  }

  #take(name: string, payload: string): void {
    if (name === 'inform') {
      this.informs.push(JSON.parse(payload) as Inform);
      if (this.isOpen && this.informs.at(-1)?.version !== this.#offered?.version) this.sendOffer();
    } else if (name === 'progress') {
      const progress = JSON.parse(payload) as Progress;
      this.progress.push(progress);
      if (progress.step === 'failed') this.isOpen = false;
    } else if (name === 'get') {
      this.#answerGet(JSON.parse(payload) as Get);
    } else {
      return;
    }
    this.longestPayload = Math.max(this.longestPayload, payload.length);
    this.changes.note();
  }

  #answerGet(get: Get): void {
    const { offset, length, manifest } = get;
    const whole = manifest === true ? Buffer.from(this.#lines) : this.#image;
    const asked = whole.subarray(offset, offset + Math.min(length, getLength));
    const answers = Array.from({ length: Math.ceil(asked.length / dataLength) }, (_, at) => ({
      offset: offset + at * dataLength,
      data: asked.subarray(at * dataLength, (at + 1) * dataLength).toString('base64'),
      ...(manifest === true ? { manifest } : {}),
    }));
    for (const answer of this.#faults.answerGet?.(get, answers) ?? answers) this.send('data', answer);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    if (request.url === `/f/${token}/manifest`) {
      response.writeHead(200, { 'content-type': 'text/plain' }).end(this.#lines);
      return;
    }
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')?.map(Number) ?? [];
    if (request.url !== `/f/${token}` || from === undefined || to === undefined) {
      response.writeHead(404).end();
    } else if (this.#faults.answerImage?.(request, response) !== true) {
      const part = this.#image.subarray(from, to + 1);
      const contentRange = `bytes ${from}-${to}/${this.#image.length}`;
      response.writeHead(206, { 'content-range': contentRange, 'content-length': part.length }).end(part);
    }
  }
}
