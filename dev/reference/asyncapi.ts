// The AsyncAPI 3 document of device topics, relay, webhooks and provisioning. The build makes it (dev/build/reference.js) from the
// schemas that read and write these messages. Adds descriptions and examples, no shape of its own.
import { z } from 'zod';
import { topicOf } from '../../src/domain/topics.ts';
import { controlBodySchema } from '../../src/protocol/control.ts';
import { eventBodySchema, gapBodySchema } from '../../src/protocol/events.ts';
import * as firmware from '../../src/protocol/firmware.ts';
import * as mqtt from '../../src/protocol/mqtt.ts';
import {
  advertisedNamePrefixes,
  networkConfigSchema,
  progressByStatus,
  provisioningService,
  provisioningStates,
  statusNotificationSchema,
} from '../../src/protocol/provisioning.ts';
import * as relay from '../../src/protocol/relay.ts';
import { eventTypes, type EventType } from '../../src/protocol/vocabulary.ts';

type Broker = { host: string; port: number | string; tlsPort: number | string };
type Message = [summary: string, schema: z.ZodType, ...examples: unknown[]];

const exampleDevice = { productKey: 'servo-switch', deviceId: 'dev_8k2m4n6p' };
const exampleName = `${exampleDevice.productKey}&${exampleDevice.deviceId}`;
const exampleTopic = topicOf(exampleDevice, mqtt.topicActions.propertyPost);
const time = 1772366400000;
const exampleReport = {
  method: mqtt.propertyPostMethod,
  id: '17',
  params: { position: 'up', angle: 90, wifi_rssi: -58 },
  time,
};

const deviceMessages: Record<string, Message> = {
  PropertyReport: [
    'The state of the device. Only `params` is needed; a body of bare properties is a report as well. Unknown ' +
      'properties are kept, a known one of the wrong type is dropped alone. The service dates reports on arrival.',
    mqtt.propertyPostSchema,
    exampleReport,
    { params: { position: 'middle' } },
  ],
  Command: [
    'A command: `params` holds exactly the members of the control body that the caller sent.',
    mqtt.propertySetSchema.extend({ params: controlBodySchema }),
    { method: mqtt.propertySetMethod, id: '3h5k7m9p2q4r6s8t', params: { action: 'toggle', position: 'up' }, time },
    { method: mqtt.propertySetMethod, id: '4j6m8n', params: { switch: true, angle: 90 }, time },
  ],
  CommandReply: [
    'That a command was carried out, with its `id`. Never a report: it changes no state.',
    mqtt.propertySetReplySchema,
    { method: mqtt.propertySetReplyMethod, id: '3h5k7m9p2q4r6s8t', code: 200, time },
  ],
  Status: [
    'Online or offline: announced by the device, or by the service where the device could not announce it.',
    mqtt.statusSchema,
    { status: 'online', time },
  ],
  FirmwareInform: [
    'The firmware that the device runs, and the keys that it trusts: at the begin of each session, after its subscriptions.',
    firmware.informSchema,
    { version: '1.1.4', slot: 'a', keys: ['3f8a1c0b9d2e4f67'] },
  ],
  FirmwareUpgrade: [
    'New firmware, and the address of its image: when it is offered, and in each session while the update is open.',
    firmware.upgradeSchema,
    {
      version: '1.2.0',
      size: 812_544,
      hash: '9c56cc51b374c3ba',
      url: '/f/8k2m4n6p7q9r3s5t1v0w2x4y6z8a1b3c5d7e9f2g4h6j8k0m',
    },
  ],
  FirmwareProgress: [
    'How far the device is with an update. It proves nothing: only the new version does, in a later session.',
    firmware.progressSchema,
    { step: 'downloading', percent: 40 },
    { step: 'failed', error: 'flash_write' },
  ],
  FirmwareGet: [
    `Asks for a part of the image, or of its signed manifest. At most ${firmware.maxGetBytes} bytes.`,
    firmware.getSchema,
    { offset: 4_800, length: 600 },
    { offset: 0, length: 600, manifest: true },
  ],
  FirmwareData: [
    `A part of the answer to a request, of at most ${firmware.dataBytes} bytes: they come in order. Empty at the end. Or why there is none: ask ` +
      'again after a minute if it is `paused`, after some seconds if `busy`, and not at all if `gone`.',
    firmware.dataSchema,
    { offset: 4_800, data: 'q83vEjRW' },
    { offset: 4_800, error: 'paused' },
  ],
};

const success = { code: 200, message: 'success' };
const { deviceAuth, userAuth, keyAuth } = relay.relayRequestSchemas;
const relayMessages: Record<string, Message> = {
  Auth: [
    'Signs in. With the messaging credentials of a device its topics may be subscribed to; with an access token, or an API key with ' +
      "the scope `read`, those of the user's own and shared devices: of one product, where the key has one.",
    z.union([deviceAuth, userAuth, keyAuth]),
    { action: 'auth', username: exampleName, password: 'tk_9bX2...' },
    { action: 'auth', token: 'eyJhbGciOiJIUzI1NiIs...' },
    { action: 'auth', keyId: 'ak_4f7Kp2Qx9Lm3Rt6Vw8Za', apiKey: 'sk_Qm7R...' },
  ],
  Subscribe: [
    'A topic, or a filter with `+` or `#` below one `/sys/{productKey}/{deviceId}/`. With a token or an API key also `/sys/+/+/...`, ' +
      "everything that is the user's or shared with the user, and `/sys/{productKey}/+/...`; devices that come later are in it. With `snapshot` " +
      'the present state is pushed first, before the reply: a status and, where the device has reported, a report.',
    relay.relayRequestSchemas.subscribe,
    { action: 'subscribe', topic: exampleTopic },
    { action: 'subscribe', topic: '/sys/+/+/#', snapshot: true },
  ],
  Unsubscribe: [
    'Ends a subscription made with the same topic or filter.',
    relay.relayRequestSchemas.unsubscribe,
    { action: 'unsubscribe', topic: exampleTopic },
  ],
  Publish: [
    'What a device says, from a socket with its messaging credentials, on a topic that it may publish. It has the ' +
      'same effect as through the broker, except that a relay session never changes presence.',
    relay.relayRequestSchemas.publish,
    { action: 'publish', topic: exampleTopic, payload: exampleReport },
  ],
  Ping: ['Asks for a pong.', relay.relayRequestSchemas.ping, { action: 'ping' }],
  ReadingPong: [
    'The answer to a ping of the service, with its `id`. A client that does not answer has a few megabytes pushed to it ' +
      'and is then closed with 1013.',
    relay.relayReadingPongSchema,
    { action: 'pong', id: 'd2f0c8a4-5b7e-4c1d-9f3a-6e8b0a1c2d3e' },
  ],
  AuthReply: [
    '200, 401 with why not, or 503 while the database is away. The third 401 closes the socket.',
    relay.relayReplySchemas.auth,
    { action: 'auth', ...success },
    { action: 'auth', code: 401, message: 'invalid_password' },
  ],
  SubscribeReply: [
    '200, or why not: 401 before a successful auth, 403 for what is not yours, 400 above the limits.',
    relay.relayReplySchemas.subscribe,
    { action: 'subscribe', topic: exampleTopic, ...success },
    { action: 'subscribe', topic: '/sys/+/+/status', code: 403, message: 'forbidden' },
  ],
  UnsubscribeReply: [
    '200, also for a topic that was not subscribed to.',
    relay.relayReplySchemas.unsubscribe,
    { action: 'unsubscribe', topic: exampleTopic, ...success },
  ],
  PublishReply: [
    '200, or why not: 401 before a successful auth, 403 for what is not yours to say, 400 for what is no message.',
    relay.relayReplySchemas.publish,
    { action: 'publish', topic: exampleTopic, ...success },
    { action: 'publish', topic: exampleTopic, code: 400, message: 'invalid_request: payload: not_json' },
  ],
  Pong: ['The reply to a ping.', relay.relayReplySchemas.pong, { action: 'pong' }],
  Unreadable: [
    'The reply to a frame that names no action.',
    relay.relayReplySchemas.error,
    { action: 'error', code: 400, message: 'invalid_request' },
  ],
  ReadingCheck: [
    'Comes among pushes, about every 64 KiB: the service asks whether they were read. Answer with its `id`.',
    relay.relayReadingCheckSchema,
    { action: 'ping', id: 'd2f0c8a4-5b7e-4c1d-9f3a-6e8b0a1c2d3e' },
  ],
  Push: [
    'A message on a subscribed topic, once however many filters match. `payload` is text where it is no JSON.',
    relay.relayPushSchema,
    { topic: exampleTopic, payload: exampleReport },
  ],
  RecordPush: [
    'A change of the record (name, owner, disabled), of the members, or the deletion of a device: read the device again. Comes to ' +
      'users who may follow the device, and to those who just lost that right; not to sockets with messaging credentials.',
    relay.relayPushSchema.extend({ payload: relay.recordNoticeSchema }),
    { topic: topicOf(exampleDevice, relay.recordTopic), payload: { change: 'members_changed', time } },
  ],
};

const provisioningMessages: Record<string, Message> = {
  NetworkConfig: [
    'Written by the client after it connected.',
    networkConfigSchema,
    { ssid: 'Workshop', password: 'correct horse', apiUrl: 'https://api.example.com' },
  ],
  StatusNotification: [
    'How far the device has come.',
    statusNotificationSchema,
    { status: 'received', message: '' },
    { status: 'error', message: 'wrong network password' },
  ],
};

const { deviceId } = exampleDevice;
const timestamp = new Date(time).toISOString();
const wasOnline = { since: timestamp, lastOnlineAt: timestamp };
const command = { commandId: '3h5k7m9p2q4r6s8t', reason: null, scheduleId: '7a9c2e4g6j8m' };
const runId = `${command.scheduleId}:${time}`;

const events: Record<EventType, [summary: string, data: object]> = {
  'device.activated': ['The device got messaging credentials.', { reason: 'first' }],
  'device.online': ['The device is online.', wasOnline],
  'device.offline': ['The device is offline, for longer than the grace of its product.', wasOnline],
  'device.reported': ['Known properties have other values; not `wifi_rssi` alone.', { changes: { position: 'up' } }],
  'command.settled': [
    'A command has ended. Commands given before a webhook wanted this are not told.',
    { ...command, params: { action: 'toggle', position: 'up' }, state: 'confirmed' },
  ],
  'run.settled': [
    'A due time of a schedule, or the end of a lease, has its outcome.',
    { ...command, runId, name: 'Morning', dueAt: timestamp, outcome: 'confirmed' },
  ],
  'device.claimed': ['The device has this owner now. For the owner alone.', { reason: 'claimed' }],
  'device.released': ['The device is with the owner of its product again. For that owner.', { reason: 'released' }],
  'member.changed': [
    'A member joined, left, was removed or has another role. For the owner alone.',
    { reason: 'joined', email: 'bert@example.com', role: 'viewer' },
  ],
};

const nameOf = (type: string) => type.replaceAll(/(?:^|\.)([a-z])/g, (_, letter: string) => letter.toUpperCase());
const describeEvent = (type: EventType): [name: string, message: Message] => {
  const [summary, data] = events[type];
  const example = { type, timestamp, data: { deviceId, number: 17, ...data } };
  return [nameOf(type), [summary, eventBodySchema(type), example]];
};
const webhookMessages: Record<string, Message> = {
  ...Object.fromEntries(eventTypes.map(describeEvent)),
  Gap: [
    'These numbers are lost: the device keeps 200 events, and the receiver took none for too long.',
    gapBodySchema,
    { type: 'gap', timestamp, data: { deviceId, from: 18, to: 40 } },
  ],
};

const atLeastOnce = { bindings: { mqtt: { qos: 1, retain: false } } };
const replies = ['CommandReply'];
const deviceReports = ['PropertyReport', ...replies];
const relayRequests = ['Auth', 'Subscribe', 'Unsubscribe', 'Publish', 'Ping'] as const;
const relayReplies = ['AuthReply', 'SubscribeReply', 'UnsubscribeReply', 'PublishReply', 'Pong', 'Unreadable'] as const;

/**
 * `version` is that of package.json; `broker` is what activated devices receive. `x-parties` of a channel: the side after which
 * the operations are named, and the other side.
 */
export function describeMessaging(version: string, broker: Broker) {
  return {
    asyncapi: '3.1.0',
    info: {
      title: 'Latchwork messages',
      version,
      description:
        'Device topics (MQTT), the WebSocket relay, and the Bluetooth channel that brings a device onto a network. ' +
        'Operations are named from the side of the service; those of provisioning from the side of the device. ' +
        'Requests and answers over HTTP are in the OpenAPI document beside this one.',
    },
    defaultContentType: 'application/json',
    servers: describeServers(broker),
    channels: {
      propertyPost: deviceChannel('propertyPost', 'Reports', 'Reports, and often command replies.', deviceReports),
      propertySet: deviceChannel('propertySet', 'Commands', 'Commands for a device.', ['Command']),
      propertySetReply: deviceChannel('propertySetReply', 'Command replies', 'The command is carried out.', replies),
      status: deviceChannel('status', 'Online and offline', 'Announced by the device or the service.', ['Status']),
      otaInform: deviceChannel('otaInform', 'Firmware version', 'What the device runs.', ['FirmwareInform']),
      otaUpgrade: deviceChannel('otaUpgrade', 'Firmware offer', 'New firmware for a device.', ['FirmwareUpgrade']),
      otaProgress: deviceChannel('otaProgress', 'Firmware progress', 'How far it is.', ['FirmwareProgress']),
      otaGet: deviceChannel('otaGet', 'Image requests', 'For an image without HTTP.', ['FirmwareGet']),
      otaData: deviceChannel('otaData', 'Image parts', 'Answers to these requests.', ['FirmwareData']),
      relay: {
        address: '/mqtt',
        title: 'Relay',
        description:
          'A WebSocket without sub-protocol, of text frames. The next frame need not wait for a reply. A socket has ' +
          `10 s to authenticate, then it is closed with 1008; a frame above ${relay.maxRelayFrameBytes} bytes closes with ` +
          '1009; 20 subscriptions with device credentials, 200 with an access token or an API key. Deleting or disabling a ' +
          'device, or giving it new credentials, closes the sockets that were opened with its credentials, and deleting an ' +
          'API key those that were opened with it.',
        servers: [{ $ref: '#/servers/relay' }],
        messages: refs(Object.keys(relayMessages)),
        bindings: { ws: { method: 'GET' } },
        'x-parties': ['service', 'client'],
      },
      webhook: {
        address: '/',
        title: 'Webhooks',
        description:
          'A POST to the URL of a webhook, signed by Standard Webhooks 1.0. At least once, in order for each device; the same event ' +
          'always has the same `webhook-id`. `GET /devices/{deviceId}/events?after=` reads the same events.',
        servers: [{ $ref: '#/servers/receiver' }],
        messages: refs(Object.keys(webhookMessages)),
        bindings: { http: {} },
        'x-parties': ['service', 'receiver'],
      },
      networkConfig: bluetoothChannel(provisioningService.networkConfigUuid, 'Network configuration', 'NetworkConfig'),
      provisioningStatus: bluetoothChannel(provisioningService.statusUuid, 'Provisioning status', 'StatusNotification'),
    },
    operations: {
      receiveReport: operation('receive', 'propertyPost', deviceReports, atLeastOnce),
      sendCommand: operation('send', 'propertySet', ['Command'], atLeastOnce),
      receiveCommandReply: operation('receive', 'propertySetReply', replies),
      receiveStatus: operation('receive', 'status', ['Status']),
      sendStatus: operation('send', 'status', ['Status']),
      receiveFirmwareInform: operation('receive', 'otaInform', ['FirmwareInform']),
      sendFirmwareUpgrade: operation('send', 'otaUpgrade', ['FirmwareUpgrade']),
      receiveFirmwareProgress: operation('receive', 'otaProgress', ['FirmwareProgress']),
      receiveFirmwareGet: operation('receive', 'otaGet', ['FirmwareGet']),
      sendFirmwareData: operation('send', 'otaData', ['FirmwareData']),
      receiveRelayRequest: operation('receive', 'relay', relayRequests, {
        reply: { channel: { $ref: '#/channels/relay' }, messages: messageRefs('relay', relayReplies) },
      }),
      receiveReadingPong: operation('receive', 'relay', ['ReadingPong']),
      sendPush: operation('send', 'relay', ['Push', 'RecordPush', 'ReadingCheck']),
      sendEvent: operation('send', 'webhook', Object.keys(webhookMessages), { bindings: { http: { method: 'POST' } } }),
      receiveNetworkConfig: operation('receive', 'networkConfig', ['NetworkConfig']),
      sendProvisioningStatus: operation('send', 'provisioningStatus', ['StatusNotification']),
    },
    components: {
      messages: describeMessages({ ...deviceMessages, ...relayMessages, ...webhookMessages, ...provisioningMessages }),
      securitySchemes: {
        messagingCredentials: {
          type: 'userPassword',
          description: 'Username and password of the activation result; the client identifier is the username.',
        },
      },
    },
    'x-provisioning': {
      advertisedNamePrefixes,
      serviceUuid: provisioningService.uuid,
      progressByStatus,
      clientStates: provisioningStates,
    },
  };
}

function describeServers({ host, port, tlsPort }: Broker) {
  const security = [{ $ref: '#/components/securitySchemes/messagingCredentials' }];
  const variables = { host: { default: host === '' ? 'broker.example.com' : host } };
  const protocolVersion = '3.1.1';
  const api = { host: '{host}', protocol: 'wss', variables: { host: { default: 'api.example.com' } } };
  return {
    broker: { host: `{host}:${port}`, protocol: 'mqtt', protocolVersion, variables, security },
    brokerTls: { host: `{host}:${tlsPort}`, protocol: 'mqtts', protocolVersion, variables, security },
    direct: {
      ...api,
      pathname: '/mqtt/{deviceId}',
      description:
        'MQTT 3.1.1 or 5 over WebSocket, sub-protocol `mqtt`, to the host of the HTTP interface: no broker in between. At most ' +
        'QoS 1, nothing retained, no persistent session.',
      variables: { ...api.variables, deviceId: { default: exampleDevice.deviceId } },
      security,
    },
    relay: { ...api, description: 'The host of the HTTP interface; `ws` where that is plain HTTP.' },
    receiver: {
      host: '{host}',
      protocol: 'https',
      description: 'What a user named as the URL of a webhook.',
      variables: { host: { default: 'maker.example' } },
    },
    device: {
      host: '{device}',
      protocol: 'bluetooth-le',
      description: `The device itself, by its advertised name, as peripheral; GATT service ${provisioningService.uuid}.`,
      variables: { device: { default: 'IoT-Switch-4F2A', description: 'Advertised name.' } },
    },
  };
}

function deviceChannel(action: keyof typeof mqtt.topicActions, title: string, description: string, messages: string[]) {
  return {
    address: topicOf({ productKey: '{productKey}', deviceId: '{deviceId}' }, mqtt.topicActions[action]),
    title,
    description,
    servers: ['broker', 'brokerTls', 'direct'].map((name) => ({ $ref: `#/servers/${name}` })),
    parameters: {
      productKey: { description: 'Key of the product.', examples: [exampleDevice.productKey] },
      deviceId: { description: 'Identifier from the activation result.', examples: [exampleDevice.deviceId] },
    },
    messages: refs(messages),
    'x-parties': ['service', 'device'],
  };
}

function bluetoothChannel(uuid: string, title: string, message: string) {
  return {
    address: uuid,
    title,
    description: `Characteristic of the service ${provisioningService.uuid}; one JSON object a message, UTF-8.`,
    servers: [{ $ref: '#/servers/device' }],
    messages: refs([message]),
    'x-parties': ['device', 'client'],
  };
}

function operation(action: 'send' | 'receive', channel: string, messages: readonly string[], more: object = {}) {
  return { action, channel: { $ref: `#/channels/${channel}` }, messages: messageRefs(channel, messages), ...more };
}

function messageRefs(channel: string, messages: readonly string[]) {
  return messages.map((name) => ({ $ref: `#/channels/${channel}/messages/${name}` }));
}

function refs(messages: readonly string[]) {
  return Object.fromEntries(messages.map((name) => [name, { $ref: `#/components/messages/${name}` }]));
}

function describeMessages(messages: Record<string, Message>) {
  const describe = (name: string, [summary, schema, ...examples]: Message) => ({
    ...{ name, summary, payload: payloadOf(schema) },
    examples: examples.map((payload) => ({ payload })),
  });
  return Object.fromEntries(Object.entries(messages).map(([name, message]) => [name, describe(name, message)]));
}

function payloadOf(schema: z.ZodType) {
  const payload = z.toJSONSchema(schema, {
    target: 'draft-7',
    io: 'input',
    // Zod adds the safe integers of JavaScript as limits; the contract has none.
    override: ({ jsonSchema }) => {
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  delete payload.$schema;
  return payload;
}
