// Sends a command and follows it to its end. A request whose answer was lost is sent again under the same key, which the
// service recognises: the device gets the command once.
import { dataOf, NoAnswerError, type Client, type Data } from './http.ts';

type ControlCall = Client['devices'][':deviceId']['control']['$post'];
type Toggle = { action: 'toggle'; position: 'up' | 'middle' | 'down' };
type Angle = { angle: number };
/** `then` is sent after so many seconds, and again until a report confirms it. */
type Lease<Body> = { lease: { seconds: number; then: Body } };
/** What a schedule may give as `command`. */
export type CommandBody =
  | { action: 'toggle'; position?: Toggle['position'] }
  | { action: 'pulse'; duration?: number }
  | { action: 'trigger' }
  | { switch?: boolean; angle?: number };
export type ControlBody = CommandBody | (Toggle & Lease<Toggle>) | (Angle & Lease<Angle>);
export type Command = Data<Client['devices'][':deviceId']['commands'][':commandId']['$get']>;
export type CommandReceipt = Data<ControlCall>;

export type CommandOptions = {
  /** Keep it for a device that is away, for so many seconds. */
  ttlSeconds?: number;
  /** Where to stop: at the reply of the device (default), when a report shows the result, or when its witness is known to have seen it or not. */
  until?: 'acknowledged' | 'confirmed' | 'witnessed';
  /** Each time when it has come further. The service is then asked more often. */
  onCommand?: (command: Command) => void;
};

/** The service holds an answer no longer. */
const longestWaitSeconds = 10;
const tries = 3;
const retryBaseMs = 250;
const firstLookMs = 100;
const slowestLookMs = 5_000;
/** Where no report confirms it in time, the reply is the end. */
const endedStates: readonly Command['state'][] = ['confirmed', 'undelivered', 'expired', 'failed', 'cancelled'];

/** @throws ApiError with the documented reasons, NoAnswerError where the service could not be reached */
export async function runCommand(
  api: Client,
  deviceId: string,
  body: ControlBody,
  options: CommandOptions = {},
): Promise<Command> {
  const { ttlSeconds, until = 'acknowledged', onCommand } = options;
  const key = Array.from({ length: 4 }, () => Math.random().toString(36).slice(2, 10)).join('');
  const receipt = await again(() =>
    dataOf(
      api.devices[':deviceId'].control.$post({
        param: { deviceId },
        query: {
          ...(onCommand === undefined && { wait: String(longestWaitSeconds) }),
          ...(until === 'witnessed' && { until }),
          ...(ttlSeconds !== undefined && { ttl: String(ttlSeconds) }),
        },
        header: { 'idempotency-key': key },
        json: body,
      }),
    ),
  );
  const { commandId } = receipt;
  let seen = '';
  for (let lookInMs = firstLookMs; ; lookInMs = Math.min(lookInMs * 1.5, slowestLookMs)) {
    const command = await again(() =>
      dataOf(api.devices[':deviceId'].commands[':commandId'].$get({ param: { deviceId, commandId } })),
    );
    const { witness } = command;
    const come = JSON.stringify([command.state, command.steps, witness?.outcome]);
    if (come !== seen) onCommand?.(command);
    seen = come;
    const isOver = Date.now() > Date.parse(command.expiresAt);
    const isEnough = command.state === 'acknowledged' && (until !== 'confirmed' || isOver);
    const isEnded = isEnough || endedStates.includes(command.state);
    // Without a witness the reply is enough.
    if (until === 'witnessed' && witness !== null ? witness.outcome !== 'pending' : isEnded) return command;
    await sleep(lookInMs);
  }
}

async function again<T>(ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof NoAnswerError) || attempt === tries) throw error;
      await sleep(retryBaseMs * 2 ** attempt * Math.random());
    }
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
