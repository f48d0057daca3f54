// `npm start` under clients that read a status view as fast as they are answered, while the scheduled job runs again and
// again. The service must answer all the time, run the job, and keep its parts.
import { setTimeout as sleep } from 'node:timers/promises';
import { activate, addProduct, signUp } from '../../../rig/clients/accounts.ts';
import { connectApi } from '../../../rig/clients/api.ts';
import { chooseLocalPlace, LocalRun } from '../../../rig/services/local-run.ts';
import type { Scenario } from './scenario.ts';

const clients = 16;
const lookEveryMs = 250;
/** Seen hangs never ended. */
const noAnswerForMs = 20_000;

export const localLoad: Scenario = {
  name: 'local-load',
  title: `\`npm start\` under ${clients} clients that read without a pause`,
  seenBy: 'answers to HTTP requests',
  run: async ({ count, say }) => {
    const [seconds, scheduleSeconds, wantedRuns] = [count(120, 8), count(20, 2), count(6, 3)];
    // The same path as the minute's, more often.
    await using run = new LocalRun(await chooseLocalPlace(), { DEMO: 'no', SCHEDULE_SECONDS: String(scheduleSeconds) });
    await run.untilTold(/Try next/);
    const pids = JSON.stringify(run.parts);
    const runsBefore = run.logged('worker', 'schedule_ran').length;
    const owner = await signUp((credentials) => connectApi(run.url, credentials));
    const { deviceId } = await activate(owner.api, await addProduct(owner), 'LOAD-1');
    const load = new Load(`${run.url}/api/v1/devices/${deviceId}/status`, owner.token);
    const startedAtMs = performance.now();
    const loading = load.start();
    const scheduled = () => run.logged('worker', 'schedule_ran').slice(runsBefore);
    const isDone = () => performance.now() - startedAtMs > seconds * 1000 && scheduled().length >= wantedRuns;
    while (!isDone() && load.msSinceAnswer < noAnswerForMs) {
      await sleep(lookEveryMs);
    }
    const isStuck = load.msSinceAnswer >= noAnswerForMs;
    const tookSeconds = (performance.now() - startedAtMs) / 1000;
    load.stop(isStuck);
    await loading;
    const failedRuns = scheduled().filter((entry) => 'failure' in entry).length;
    say(`${Math.round(load.answers / tookSeconds)} answers a second`);
    const failures: string[] = [];
    if (isStuck) failures.push(`no answer for ${noAnswerForMs / 1000} s after ${load.answers} answers`);
    if (load.otherAnswers.size > 0) failures.push(`other answers: ${JSON.stringify([...load.otherAnswers])}`);
    if (failedRuns > 0) failures.push(`${failedRuns} runs of the schedule failed`);
    if (JSON.stringify(run.parts) !== pids) failures.push('a part was started again');
    const facts = [`${load.answers} answers`, `${scheduled().length} runs of the schedule`];
    return [{ label: `${Math.round(tookSeconds)} s of load`, facts, failures }];
  },
};

/** Keeps one request of each client under way. */
class Load {
  readonly #url: string;
  readonly #token: string;
  readonly #breakingOff = new AbortController();
  #lastAnswerAtMs = performance.now();
  #isStopping = false;
  answers = 0;
  /** How often each status or error came. */
  readonly otherAnswers = new Map<string, number>();

  constructor(url: string, token: string) {
    this.#url = url;
    this.#token = token;
  }

  get msSinceAnswer(): number {
    return performance.now() - this.#lastAnswerAtMs;
  }

  async start(): Promise<void> {
    await Promise.all(Array.from({ length: clients }, () => this.#work()));
  }

  /** Lets the requests under way be answered, or breaks them off. */
  stop(isStuck: boolean): void {
    this.#isStopping = true;
    if (isStuck) this.#breakingOff.abort();
  }

  async #work(): Promise<void> {
    while (!this.#isStopping) {
      const answer = await this.#ask().catch((error: unknown) => String(error));
      if (answer === '200') {
        this.answers += 1;
        this.#lastAnswerAtMs = performance.now();
      } else this.otherAnswers.set(answer, (this.otherAnswers.get(answer) ?? 0) + 1);
    }
  }

  async #ask(): Promise<string> {
    const headers = { authorization: `Bearer ${this.#token}` };
    const response = await fetch(this.#url, { headers, signal: this.#breakingOff.signal });
    await response.text();
    return String(response.status);
  }
}
