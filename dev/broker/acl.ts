// Evaluates the topic rules that the Worker hands out at login, as EMQX evaluates its `acl` answer: in order, the
// first match decides, no match is a refusal. Holds no policy of its own.
import { z } from 'zod';

const aclRuleSchema = z.object({
  permission: z.enum(['allow', 'deny']),
  action: z.enum(['publish', 'subscribe', 'all']),
  topic: z.string(),
  qos: z.array(z.int()).optional(),
  retain: z.union([z.boolean(), z.literal('all')]).optional(),
});
export const aclSchema = z.array(aclRuleSchema);
export type Acl = z.infer<typeof aclSchema>;
type AclRule = Acl[number];

export function mayPublish(acl: Acl, packet: { topic: string; qos: number; retain: boolean }): boolean {
  return isAllowed(acl, 'publish', (rule) => {
    const fitsQos = rule.qos === undefined || rule.qos.includes(packet.qos);
    const fitsRetain = rule.retain === undefined || rule.retain === 'all' || rule.retain === packet.retain;
    return fitsQos && fitsRetain && matchesRule(rule, packet.topic);
  });
}

/** `$share` and `$SYS` are refused whatever the rules say: aedes grants shared subscriptions but never serves them. */
export function maySubscribe(acl: Acl, filter: string): boolean {
  return !filter.startsWith('$') && isAllowed(acl, 'subscribe', (rule) => matchesRule(rule, filter));
}

/**
 * Whether a concrete message may go to a client. Asked at every delivery, because aedes stores a refused filter of a
 * persistent session along with the granted ones of the same SUBSCRIBE and would queue messages for it.
 */
export function mayReceive(acl: Acl, topic: string): boolean {
  return !topic.startsWith('$') && isAllowed(acl, 'subscribe', (rule) => covers(withoutEq(rule.topic), topic));
}

function isAllowed(acl: Acl, action: 'publish' | 'subscribe', fits: (rule: AclRule) => boolean): boolean {
  const decisive = acl.find((rule) => (rule.action === 'all' || rule.action === action) && fits(rule));
  return decisive?.permission === 'allow';
}

function matchesRule(rule: AclRule, topic: string): boolean {
  return rule.topic.startsWith('eq ') ? withoutEq(rule.topic) === topic : covers(rule.topic, topic);
}

function withoutEq(ruleTopic: string): string {
  return ruleTopic.startsWith('eq ') ? ruleTopic.slice(3) : ruleTopic;
}

/** Whether every topic that `inner` (a topic or a filter) can match is matched by `filter` too. */
function covers(filter: string, inner: string): boolean {
  const wanted = filter.split('/');
  const levels = inner.split('/');
  for (const [index, level] of wanted.entries()) {
    if (level === '#') return true;
    const candidate = levels[index];
    if (candidate === undefined || candidate === '#') return false;
    if (level !== '+' && level !== candidate) return false;
  }
  return wanted.length === levels.length;
}
