// The long run: generated input over every field of every route of the reference, over the hooks and the bridge's routes, and
// in messages of devices, as fast as it is answered. Limits are relaxed, because it looks for wrong answers and not for what a
// flood costs: that is what the attacks are for. Several services share the machine, since one workerd has one thread.
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { activateMany, addProduct, signUp } from '../../rig/clients/accounts.ts';
import { connectApi } from '../../rig/clients/api.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import type { Target } from './rig/attack.ts';
import type { LongRunData, LongRunInputs, LongRunMessage, LongRunResults } from './rig/long-run-thread.ts';

export type LongOutcome = {
  sent: LongRunInputs;
  seconds: number;
  operations: number;
  answers: Record<string, number>;
  problems: string[];
};

/** Of `inputs` requests over the reference, what is sent beside them. */
const machineShare = 0.1;
const messageShare = 0.05;
/** Of each service: the first is for the requests, the others send messages. */
const devices = ['OWN-1', 'OWN-2', 'OWN-3', 'OWN-4', 'OWN-5'];

type Options = { inputs: number; seed: number; say: (line: string) => void };

/** Connections of one sender. */
const clients = 16;
const sayEveryMs = 30_000;
/** Without any answer: then it hangs. */
const patienceMs = 60_000;

export async function runLong({ inputs, seed, say }: Options): Promise<LongOutcome> {
  const count = Math.max(1, Math.floor(availableParallelism() - 1));
  say(`\nlong run: ${inputs} generated requests and what is sent beside them, ${count} services`);
  const services = await Promise.all(
    Array.from({ length: count }, () => WholeService.start({ RATE_LIMITS: 'relaxed', LOG_INFO_SHARE: '0' })),
  );
  const startedAt = performance.now();
  const sent = services.map(() => 0);
  const total = () => sent.reduce((sum, one) => sum + one, 0);
  const timer = setInterval(() => {
    const seconds = (performance.now() - startedAt) / 1000;
    say(`  ${total()} sent in ${seconds.toFixed(0)} s, ${Math.round(total() / seconds)}/s`);
  }, sayEveryMs);
  try {
    const ended = await Promise.all(
      services.map(async (service, index) => {
        const { url, mqttUrl } = service.rig;
        const target = { url, mqttUrl, own: await attackerOf(service) };
        const share = (part: number): number => Math.ceil((inputs * part) / count);
        const kinds = { requests: share(1), machines: share(machineShare), messages: share(messageShare) };
        const data = { target, inputs: kinds, clients, seed: seed + index * 7_919 };
        return runThread(data, (now) => (sent[index] = now));
      }),
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const answers: Record<string, number> = {};
    const all = ended.flatMap(({ results }) => Object.values(results));
    for (const result of all) {
      for (const [answer, number] of Object.entries(result.answers)) answers[answer] = (answers[answer] ?? 0) + number;
    }
    const sumOf = (kind: keyof LongRunInputs): number => ended.reduce((sum, one) => sum + one.results[kind].tried, 0);
    return {
      sent: { requests: sumOf('requests'), machines: sumOf('machines'), messages: sumOf('messages') },
      seconds,
      operations: ended[0]?.operations ?? 0,
      answers,
      problems: all.flatMap(({ problems }) => problems),
    };
  } finally {
    clearInterval(timer);
    for (const service of services) await service.stop();
  }
}

async function attackerOf({ rig }: WholeService): Promise<Target['own']> {
  const attacker = await signUp((credentials) => connectApi(rig.url, credentials));
  const productKey = await addProduct(attacker);
  return { token: attacker.token, productKey, devices: await activateMany(attacker.api, productKey, devices) };
}

/** @throws Error where it ends without a result, or nothing is answered any more */
async function runThread(
  workerData: LongRunData,
  onProgress: (sent: number) => void,
): Promise<{ results: LongRunResults; operations: number }> {
  const thread = new Worker(new URL('rig/long-run-thread.ts', import.meta.url), { workerData });
  const { promise, resolve, reject } = Promise.withResolvers<{ results: LongRunResults; operations: number }>();
  let [last, lastAt] = [0, performance.now()];
  thread.on('message', (message: LongRunMessage) => {
    if ('results' in message) {
      resolve(message);
      return;
    }
    onProgress(message.sent);
    if (message.sent > last) [last, lastAt] = [message.sent, performance.now()];
  });
  thread.once('error', reject);
  thread.once('exit', () => reject(new Error('a sender of the long run ended without a result')));
  const watch = setInterval(() => {
    if (performance.now() - lastAt > patienceMs) reject(new Error(`no answer for ${patienceMs / 1000} s`));
  }, 1_000);
  try {
    return await promise;
  } finally {
    clearInterval(watch);
    await Promise.race([thread.terminate(), sleep(5_000)]);
  }
}
