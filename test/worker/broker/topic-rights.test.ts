// The topic policy against a second one that shares nothing with it: string comparison and regular expressions here,
// levels and rights there. And what EMQX is handed at login against what the other brokers are answered.
import { expect, it } from 'vitest';
import { Random } from '../../../rig/inputs/random.ts';
import { bridgeName, mayUse, type TopicUse } from '../../../src/domain/topic-rights.ts';
import { isFilter, matchesFilter, messagingName, parseFilter, parseTopic } from '../../../src/domain/topics.ts';
import { aclOf } from '../../../src/routes/broker-hooks/emqx.ts';
import { rightsOfUser } from '../../../src/services/broker/messaging-auth.ts';

const own = { productKey: 'acme-switch_2', deviceId: 'dev_01abcdef' };
const others = [
  { productKey: 'acme-switch_2', deviceId: 'dev_01abcdeg' },
  { productKey: 'acme-switch', deviceId: 'dev_01abcdef' },
  { productKey: 'acme-switch_22', deviceId: 'dev_01abcdef' },
];
const users = [messagingName(own), bridgeName];
type Acl = ReturnType<typeof aclOf>;
const isAllowed = (username: string, use: TopicUse) => mayUse(rightsOfUser(username) ?? [], use);
const fromDevices = [
  'thing/event/property/post',
  'thing/service/property/set_reply',
  'status',
  'thing/ota/inform',
  'thing/ota/progress',
  'thing/ota/get',
];
const actions = [...fromDevices, 'thing/service/property/set', 'thing/ota/upgrade', 'thing/ota/data'];

const choices = new Random(20261120);
const random = () => choices.next();
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;

const oddLevels = [
  '', '+', '#', '++', '#x', 'x#', '+x', '$share', '$SYS', '$queue', '$CONTROL', 'sys', 'SYS', 'sys ', '%2F', '%00',
  '\0', 'a\0', 'ü', '😀', '\u{10FFFF}', 'a.b', '.', '*', '..', 'thing', 'thing.event', 'event', 'property', 'post',
  'set', 'set_reply', 'ota', 'get', 'upgrade', 'status', 'Status', 'dev_', 'dev_01ABCDEF', 'dev_01abcdefg', '&', ' ', '\n', 'x'.repeat(300),
  own.productKey, own.deviceId, `${own.productKey}&${own.deviceId}`, ...others.map((other) => other.productKey),
]; // prettier-ignore

/** Valid topics, near misses of them, and rubbish, in about equal parts. */
function createTopic(): string {
  const device = random() < 0.6 ? own : pick(others);
  const levels = ['', 'sys', device.productKey, device.deviceId, ...pick(actions).split('/')];
  const changes = Math.floor(random() * 4);
  for (let change = 0; change < changes; change++) {
    const index = Math.floor(random() * (levels.length + 1));
    const kind = random();
    if (kind < 0.5) levels.splice(index, 1, pick(oddLevels));
    else if (kind < 0.7) levels.splice(index, 0, pick(oddLevels));
    else if (kind < 0.85) levels.splice(index);
    else levels.splice(index, Infinity, '#');
  }
  if (random() < 0.05) levels.unshift('$share', 'group');
  if (random() < 0.05) return Array.from({ length: random() * 12 }, () => pick(oddLevels)).join('/');
  return levels.join('/');
}

const validFilter = /^(?:(?:[^/+#\0]*|\+)\/)*(?:[^/+#\0]*|\+|#)$/;

function expectTopic(username: string, action: 'publish' | 'subscribe', topic: string, isRetained: boolean): boolean {
  if (topic === '' || topic.length > 256) return false;
  if (username === bridgeName) {
    if (action === 'subscribe') {
      return fromDevices.map((rest) => `/sys/+/+/${rest}`).includes(topic);
    }
    const toDevices =
      /^\/sys\/[^/+#\0]*\/[^/+#\0]*\/(?:thing\/(?:service\/property\/set|ota\/upgrade|ota\/data)|status)$/;
    return toDevices.test(topic) && !isRetained;
  }
  const prefix = `/sys/${own.productKey}/${own.deviceId}/`;
  if (!topic.startsWith(prefix)) return false;
  if (action === 'subscribe') return validFilter.test(topic);
  const rest = topic.slice(prefix.length);
  return fromDevices.includes(rest) && (rest === 'status' || !isRetained);
}

function expectMatch(filter: string, topic: string): boolean {
  const pattern = filter
    .replace(/[.*?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('+', '[^/]*')
    .replace(/^#$/, '.*')
    .replace(/\/#$/, '(?:/.*)?');
  return new RegExp(`^${pattern}$`, 's').test(topic);
}

/** As EMQX evaluates rules: in order, the first match decides. */
function emqxAllows(acl: Acl, { action, topic, isRetained }: { action: string; topic: string; isRetained: boolean }) {
  const decisive = acl.find((rule) => {
    const fitsRetain = !('retain' in rule) || rule.retain === isRetained;
    const fits = rule.topic.startsWith('eq ') ? rule.topic === `eq ${topic}` : expectMatch(rule.topic, topic);
    return [action, 'all'].includes(rule.action) && fitsRetain && fits;
  });
  return decisive?.permission === 'allow';
}

it('agrees with the model on 150 000 topics and filters', () => {
  const disagreements: unknown[] = [];
  const allowed = { publish: 0, subscribe: 0 };
  for (let round = 0; round < 150_000; round++) {
    const [username, action, topic] = [pick(users), pick(['publish', 'subscribe'] as const), createTopic()];
    const isRetained = random() < 0.3;
    const decided = isAllowed(username, { action, topic, isRetained });
    if (decided) allowed[action]++;
    if (decided !== expectTopic(username, action, topic, isRetained)) {
      disagreements.push({ username, action, topic, isRetained, decided });
    }
  }
  expect(disagreements).toEqual([]);
  expect(Math.min(allowed.publish, allowed.subscribe), 'both answers were put to the test').toBeGreaterThan(5_000);
});

it('matches filters as the model does, and none that a device may have reaches beyond it', () => {
  const disagreements: unknown[] = [];
  let matches = 0;
  for (let round = 0; round < 150_000; round++) {
    const [filter, topic] = [createTopic(), createTopic()];
    if (/[+#]/.test(topic) || !isFilter(filter)) continue;
    const isMatch = matchesFilter(filter, topic);
    if (isMatch) matches++;
    const leaks =
      isMatch &&
      isAllowed(messagingName(own), { action: 'subscribe', topic: filter }) &&
      !`${topic}/`.startsWith(`/sys/${own.productKey}/${own.deviceId}/`);
    if (isMatch !== expectMatch(filter, topic) || leaks) disagreements.push({ filter, topic, isMatch, leaks });
  }
  expect(disagreements).toEqual([]);
  expect(matches).toBeGreaterThan(1_000);
});

it('reads a device and an action only out of exact topics', () => {
  const disagreements: unknown[] = [];
  for (let round = 0; round < 50_000; round++) {
    const topic = createTopic();
    const [, productKey, deviceId, rest = ''] = /^\/sys\/([\w-]{1,64})\/(dev_[0-9a-z]{8})\/(.*)$/s.exec(topic) ?? [];
    const isDevice = productKey !== undefined && deviceId !== undefined && !/[ilou]/.test(deviceId.slice(4));
    const isExact = isDevice && actions.includes(rest);
    if ((parseTopic(topic) !== undefined) !== isExact) disagreements.push({ topic, isExact });
    const isFilterOfDevice = isDevice && validFilter.test(topic) && topic.length <= 256;
    if ((parseFilter(topic) !== undefined) !== isFilterOfDevice) disagreements.push({ topic, isFilterOfDevice });
  }
  expect(disagreements).toEqual([]);
});

it('hands EMQX rules that decide as it decides itself', () => {
  const disagreements: unknown[] = [];
  for (let round = 0; round < 50_000; round++) {
    const [username, topic, retain] = [pick(users), createTopic(), random() < 0.3];
    // No broker lets an invalid topic come as far as its rules; and `$share` is resolved before them.
    if (!isFilter(topic) || topic.startsWith('$')) continue;
    // A rule that ends in `#` admits the level above it, too: nobody may publish there, so there is nothing to hear.
    if (topic === `/sys/${own.productKey}/${own.deviceId}`) continue;
    const acl = aclOf(rightsOfUser(username) ?? []);
    for (const action of ['publish', 'subscribe'] as const) {
      if (action === 'publish' && /[+#]/.test(topic)) continue;
      const use = { action, topic, isRetained: action === 'publish' && retain };
      if (emqxAllows(acl, use) !== isAllowed(username, use)) disagreements.push({ username, ...use });
    }
  }
  expect(disagreements).toEqual([]);
});

it.each(['', 'admin', 'latchwork-bridge ', 'Latchwork-Bridge', 'acme&dev_0', 'a&dev_01abcdef&x', '&dev_01abcdef'])(
  'gives the name %j no right at all',
  (username) => {
    for (const topic of ['/sys/+/+/status', '/sys/a/dev_01abcdef/status', '#', '$SYS/broker/uptime']) {
      for (const action of ['publish', 'subscribe'] as const) {
        expect(isAllowed(username, { action, topic })).toBe(false);
      }
    }
  },
);
