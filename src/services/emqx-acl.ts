// Topic rights as EMQX's rules, for the answer to a login and for its built-in database. The first rule that matches decides, and without the last one EMQX
// would go on to other authorizers, whose default is to allow.
import type { TopicRight } from '../domain/topic-rights.ts';

export function aclOf(rights: readonly TopicRight[]) {
  return [...rights.map(ruleOf), { permission: 'deny', action: 'all', topic: '#' }];
}

function ruleOf({ action, topic, isExact, mayRetain }: TopicRight) {
  // `eq`: this text, wildcards and all. Without it a `+` would also admit a `#` in its place.
  const rule = { permission: 'allow', action, topic: isExact ? `eq ${topic}` : topic };
  return action === 'publish' && !mayRetain ? { ...rule, retain: false } : rule;
}
