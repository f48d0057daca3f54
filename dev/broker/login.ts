// Asks the Worker's connect hook whether a client may log in, with the request a hosted EMQX would send. The broker
// decides nothing itself: no answer means "server unavailable", never "welcome".
import { z } from 'zod';
import { type Acl, aclSchema } from './acl.ts';
import type { CallHook } from './hook-caller.ts';

type LoginRequest = { clientid: string; username: string; password: string; peerhost: string; proto_ver: number };
/** `returnCode` is MQTT 3.1.1's CONNACK code (MQTT-3.2.2.3). */
type LoginAnswer = { allowed: true; acl: Acl } | { allowed: false; returnCode: 2 | 3 | 4 | 5; reason: string };

const answerSchema = z.object({
  result: z.enum(['allow', 'deny', 'ignore']),
  message: z.string().optional(),
  acl: aclSchema.optional(),
});

export async function askLogin(callHook: CallHook, request: LoginRequest): Promise<LoginAnswer> {
  const answer = await callHook(request);
  if ('failure' in answer) return { allowed: false, returnCode: 3, reason: answer.failure };
  const parsed = answerSchema.safeParse(answer.body);
  if (!parsed.success) {
    const reason = `the connect hook answered ${answer.status} ${JSON.stringify(answer.body).slice(0, 100)}`;
    return { allowed: false, returnCode: 3, reason };
  }
  const { result, message: reason = 'not authorized', acl = [] } = parsed.data;
  if (result === 'allow') return { allowed: true, acl };
  const codes: Record<string, 2 | 4> = { invalid_password: 4, invalid_client_id: 2 };
  return { allowed: false, returnCode: codes[reason] ?? 5, reason };
}
