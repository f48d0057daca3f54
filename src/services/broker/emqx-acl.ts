// Topic rights as EMQX rules, for its login hook and for its built-in database. The first matching rule decides; without
// the final deny, EMQX would ask its other authorizers, whose default is to allow.
import type { TopicRight } from '../../domain/topic-rights.ts';

export function aclOf(rights: readonly TopicRight[]) {
  return [...rights.map(ruleOf), { permission: 'deny', action: 'all', topic: '#' }];
}

function ruleOf({ action, topic, isExact, mayRetain }: TopicRight) {
  // `eq` matches the text literally. Without it a filter with `+` would also admit one with `#`.
  const rule = { permission: 'allow', action, topic: isExact ? `eq ${topic}` : topic };
  return action === 'publish' && !mayRetain ? { ...rule, retain: false } : rule;
}
