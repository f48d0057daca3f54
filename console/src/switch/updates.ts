// Updates of a virtual device, in the page and in the terminal, as firmware on a small chip takes them: in ranges over HTTP, resumed after a
// power cut, compared with the hash of the manifest, begun by a restart. It knows no maker's key, so it believes the manifest.
import type { MqttClient } from 'mqtt';

const rangeBytes = 4_096;
const restartMs = 1_000;
const againMs = 5_000;

export const updateFaults = ['none', 'cut', 'flip', 'old', 'away'] as const;
/** What goes wrong with an update, once. `cutAt`: the byte at which the power is cut; absent: in its midst. */
export type UpdateFault = { name: (typeof updateFaults)[number]; cutAt?: number };

type Upgrade = { version: string; hash: string; size: number; url: string };

type Options = {
  apiUrl: string;
  /** Of the device, up to `thing/ota/`. */
  topics: string;
  version: string;
  takeFault: () => UpdateFault;
  leave: () => void;
  signal: AbortSignal;
  onVersion?: (version: string) => void;
  onProblem: (error: unknown) => void;
};

/** From now on, in each session of the client. */
export function takeUpdates(client: MqttClient, options: Options): void {
  const { apiUrl, topics, takeFault, leave, signal, onVersion, onProblem } = options;
  let installed = options.version;
  /** What was read of an image so far. */
  let flash = { hash: '', image: new Uint8Array(0), at: 0 };
  let isBusy = false;
  const publish = (topic: string, body: object) => client.publish(topics + topic, JSON.stringify(body), { qos: 0 });
  const say = (step: string, more: object = {}) => publish('progress', { step, ...more });
  const sleep = (ms: number) =>
    new Promise<void>((resolve, reject) => {
      setTimeout(resolve, ms);
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });

  client.on('connect', () =>
    client.subscribe(`${topics}upgrade`, { qos: 1 }, () => publish('inform', { version: installed, slot: 'a' })),
  );
  client.on('message', (topic, payload) => {
    if (topic !== `${topics}upgrade` || isBusy) return;
    isBusy = true;
    install(JSON.parse(new TextDecoder().decode(payload)) as Upgrade)
      .catch((error: unknown) => (signal.aborted ? undefined : onProblem(error)))
      .finally(() => (isBusy = false));
  });

  async function install({ version: next, hash, size, url }: Upgrade): Promise<void> {
    say('accepted');
    const signed = await read(`${url}/manifest`);
    if (signed === undefined) return;
    const [manifest = ''] = new TextDecoder().decode(signed).split('\n');
    if (flash.hash !== hash) flash = { hash, image: new Uint8Array(size), at: 0 };
    const { image } = flash;
    const isResumed = flash.at > 0;
    const { name: fault, cutAt = Math.floor(size / 2) }: UpdateFault = isResumed ? { name: 'none' } : takeFault();
    while (flash.at < size) {
      const { at } = flash;
      if (fault === 'cut' && at >= cutAt) return restart(installed, true);
      const end = Math.min(at + rangeBytes, size, fault === 'cut' ? cutAt : size);
      const part = await read(url, `bytes=${at}-${end - 1}`);
      if (part === undefined) return;
      image.set(part, at);
      flash.at = end;
      const tenths = Math.floor((10 * end) / size);
      if (tenths > Math.floor((10 * at) / size)) say('downloading', { percent: 10 * tenths });
    }
    flash = { hash: '', image: new Uint8Array(0), at: 0 };
    if (fault === 'flip') image[0] = (image[0] ?? 0) ^ 1;
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', image));
    const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
    if (sha256 !== (JSON.parse(manifest) as { sha256: string }).sha256) {
      say('failed', { error: 'hash_mismatch' });
      return;
    }
    say('downloaded');
    say('restarting');
    if (fault === 'away') leave();
    else await restart(fault === 'old' ? installed : next);
  }

  /** What the address answers; undefined if the update has ended. */
  async function read(path: string, range?: string): Promise<Uint8Array | undefined> {
    for (;;) {
      const headers = range === undefined ? {} : { Range: range };
      const answer = await fetch(new URL(path, apiUrl), { signal, headers, cache: 'no-store' }).catch(
        (error: unknown) => {
          signal.throwIfAborted();
          onProblem(error);
        },
      );
      // Any other answer with 200 would be the whole image.
      if (answer?.status === (range === undefined ? 200 : 206)) return new Uint8Array(await answer.arrayBuffer());
      if ([404, 410].includes(answer?.status ?? 0)) return undefined;
      const seconds = Number(answer?.headers.get('Retry-After') ?? 0);
      await sleep(Math.max(seconds * 1_000, againMs));
    }
  }

  async function restart(comesBackWith: string, isPowerCut = false): Promise<void> {
    await client.endAsync(isPowerCut);
    await sleep(restartMs);
    installed = comesBackWith;
    onVersion?.(installed);
    client.reconnect();
  }
}
