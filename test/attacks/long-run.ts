// The long run: generated input over every field of every route of the reference, as fast as it is answered. Limits are
// relaxed, because it looks for wrong answers and not for what a flood costs: that is what the attacks are for. Several
// services share the machine, since one workerd has one thread.
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { activateMany, addProduct, signUp } from '../rig/accounts.ts';
import { connectApi } from '../rig/api.ts';
import { WholeService } from '../rig/whole-service.ts';
import type { Result, Target } from './attack.ts';
import type { LongRunData, LongRunMessage } from './long-run-thread.ts';

export type LongOutcome = {
  sent: number;
  seconds: number;
  operations: number;
  answers: Record<string, number>;
  problems: string[];
};

type Options = { inputs: number; seed: number; say: (line: string) => void };

/** Connections of one sender. */
const clients = 16;
const sayEveryMs = 30_000;
/** Without any answer: then it hangs. */
const patienceMs = 60_000;

export async function runLong({ inputs, seed, say }: Options): Promise<LongOutcome> {
  const count = Math.max(1, Math.floor(availableParallelism() - 1));
  say(`\nlong run: ${inputs} generated inputs, ${count} services`);
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
        const target = { url: service.rig.url, own: await attackerOf(service) };
        const share = Math.ceil(inputs / count);
        const data = { target, inputs: share, clients, seed: seed + index * 7_919 };
        return runThread(data, (now) => (sent[index] = now));
      }),
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const answers: Record<string, number> = {};
    for (const { result } of ended) {
      for (const [answer, number] of Object.entries(result.answers)) answers[answer] = (answers[answer] ?? 0) + number;
    }
    return {
      sent: ended.reduce((sum, { result }) => sum + result.tried, 0),
      seconds,
      operations: ended[0]?.operations ?? 0,
      answers,
      problems: ended.flatMap(({ result }) => result.problems),
    };
  } finally {
    clearInterval(timer);
    for (const service of services) await service.stop();
  }
}

async function attackerOf({ rig }: WholeService): Promise<Target['own']> {
  const attacker = await signUp((credentials) => connectApi(rig.url, credentials));
  const productKey = await addProduct(attacker);
  return { token: attacker.token, productKey, devices: await activateMany(attacker.api, productKey, ['OWN-1']) };
}

/** @throws Error where it ends without a result, or nothing is answered any more */
async function runThread(
  workerData: LongRunData,
  onProgress: (sent: number) => void,
): Promise<{ result: Result; operations: number }> {
  const thread = new Worker(new URL('long-run-thread.ts', import.meta.url), { workerData });
  const { promise, resolve, reject } = Promise.withResolvers<{ result: Result; operations: number }>();
  let [last, lastAt] = [0, performance.now()];
  thread.on('message', (message: LongRunMessage) => {
    if ('result' in message) {
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
