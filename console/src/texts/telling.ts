// Texts about what is told without being asked: webhooks with their deliveries, and notices. Loaded with the parts that show them.
import type { Client, Data } from '@latchwork/client';

type Webhook = Data<Client['webhooks'][':webhookId']['$get']>;
type Delivery = Data<Client['webhooks'][':webhookId']['deliveries']['$get']>['list'][number];

type Notice = Data<Client['users']['me']['notices']['$get']>['list'][number];

export const noticesTexts = {
  none: 'No notices',
  noneHint: 'Only what is out of the ordinary is told here. It goes when its cause is gone.',
  settings: 'What you are told',
  markAll: 'Mark all read',
  isNew: 'new',
  account: 'Your account',
  webhook: 'A webhook',
  causes: {
    offline: (since: string) => `Away for too long: since ${since}.`,
    lease_not_off: (since: string) =>
      `“For a while” was over on ${since}, and the device has not confirmed that it obeyed.`,
    run_failed: (name: string, outcome: string) =>
      `A run${name === '' ? '' : ` of “${name}”`} did not happen (${outcome}).`,
    moved_by_hand: (position: string) => `Moved by hand: ${position}.`,
    not_witnessed: (expected: string) => `A command was not seen to work (${expected}).`,
    security: (event: string, address: string) =>
      `${event}${address === '' ? '' : `, from ${address}`}. If it was not you, change your password.`,
    webhook_disabled: (url: string, why: string) => `The webhook to ${url} was disabled. ${why}`,
  } satisfies Record<Notice['cause'], (...facts: string[]) => string>,
  again: (what: string) => `Try again: ${what}`,
  againAt: (what: string, name: string) => `Try again: ${what}, ${name}`,
  form: {
    title: 'What you are told',
    hint: 'Notices are behind the bell above. What is switched off here is neither shown nor pushed.',
    causes: {
      offline: 'A device is away for too long',
      lease_not_off: '“For a while” is over, and the device has not confirmed that it obeyed',
      run_failed: 'A run of a schedule was missed or refused',
      moved_by_hand: 'A device is moved by hand, between these times',
      not_witnessed: 'A command was not seen to work',
      security: 'Something happens to your account',
      webhook_disabled: 'A webhook is disabled',
    } satisfies Record<Notice['cause'], string>,
    offlineAfter: 'Too long is',
    offlineKinds: {
      usual: 'longer than usual for the device',
      minutes: 'longer than minutes that I set',
    },
    minutes: 'Minutes',
    quiet: 'Quiet hours: notices are kept and not pushed between these times',
    from: 'From',
    to: 'To',
    zone: (zone: string) => `Times are in ${zone}, the time zone of this browser.`,
    otherZone: (zone: string) => `They were saved in ${zone}.`,
    save: 'Save',
    saved: 'Saved.',
  },
};

export const pushTexts = {
  title: 'Notices on this device',
  on: 'Notify this device',
  off: 'Stop notifying this device',
  isOn: 'Notices come to this device, also while the console is closed.',
  isOff: 'Notices can come to this device, also while the console is closed.',
  impossible: 'This browser takes no notices here. On an iPhone or iPad, add the console to the home screen first.',
  notOffered: 'This service pushes no notices.',
  denied: 'The browser blocks notices of this page. Allow them in its settings for this page.',
  failed: (why: string) => `The browser could not subscribe: ${why}`,
};

export const webhooksTexts = {
  title: 'Webhooks',
  hint: 'The service tells a server of yours what happens to your devices: in order for each device, signed by Standard Webhooks, and repeated until the server answers.',
  none: 'No webhook yet.',
  make: 'Make a webhook',
  back: 'All webhooks',
  on: 'On',
  off: 'Disabled',
  ends: {
    receiver_gone: 'The server answered 410: it wants no more.',
    failed_for_days: 'The server has taken nothing for five days.',
  } satisfies Record<NonNullable<Webhook['disabledBecause']>, string>,
  enable: 'Enable again',
  enableHint:
    'Its server is asked first, and has to answer. What the devices still have of the meantime comes as usual.',
  allDevices: 'all devices',
  devices: (count: number) => (count === 1 ? '1 device' : `${count.toLocaleString('en')} devices`),
  explain: { not_found: 'There is no such webhook. It may have been deleted.' },
  form: {
    title: 'Change',
    url: 'Address',
    urlHint:
      'HTTPS on port 443 or 8443, with a public host name. It is asked at once, and has to answer the challenge: examples/webhook-receiver.mjs shows how.',
    types: 'What it is told',
    typeNames: {
      'device.activated': 'it was activated',
      'device.online': 'it came online',
      'device.offline': 'it went offline',
      'device.reported': 'it reported something else than before',
      'command.settled': 'a command ended',
      'run.settled': 'a run of a schedule ended',
      'device.claimed': 'somebody claimed it',
      'device.released': 'its owner released it',
      'member.changed': 'somebody joined, left, or got another role',
    } satisfies Record<Webhook['types'][number], string>,
    noType: 'Choose at least one thing that it is told.',
    devices: 'Only for these devices',
    devicesHint: 'Their ids, one a line; empty for all devices that you may read.',
    save: 'Save',
    saved: 'Saved.',
  },
  secret: {
    title: 'Its secret',
    shown: 'The secret',
    shownHint: 'Copy it now: it is not shown again. With it the server proves that a message is from here.',
    value: 'Secret',
    hint: 'Each message is signed with it. For a day after it was replaced, messages have the signature of the former one, too.',
    replace: 'Replace the secret',
    replaceWarning: 'Within a day the server has to know the new secret, or it refuses each message.',
    replaceConfirm: 'Replace it',
  },
  remove: 'Delete',
  removeWarning: 'Its server is told nothing more. What was not delivered yet is not delivered.',
  removeConfirm: 'Delete the webhook',
  test: {
    title: 'Try it',
    hint: 'Sends the event endpoint.test now, whatever else waits.',
    send: 'Send a test message',
    signed: 'The exact text that was signed',
    signature: 'The header webhook-signature',
  },
  deliveries: {
    title: 'Deliveries',
    hint: 'The last 100, newest first. Successes of the last ten minutes may be missing.',
    none: 'Nothing was delivered yet.',
    look: 'Look again',
    answered: (status: number, ms: number) => `Answered ${status} after ${ms.toLocaleString('en')} ms`,
    unanswered: (why: string, ms: number) => `${why}, after ${ms.toLocaleString('en')} ms`,
    problems: {
      timeout: 'No answer in time',
      unreachable: 'The server could not be reached',
      secret_lost: 'Not sent: its secret cannot be read any more, replace it',
    } satisfies Record<NonNullable<Delivery['problem']>, string>,
    event: (number: string) => `event ${number}`,
    gap: 'events that the device no longer has',
    from: 'Deliver from here',
    fromOf: (type: string, number: string) => `Deliver from here: ${type}, event ${number}`,
  },
  again: {
    title: 'Deliver again',
    hint: 'All events of a device from a number on, under the same ids. What the device no longer has is told as a gap.',
    device: 'Device',
    deviceHint: 'Its id.',
    from: 'From event',
    submit: 'Deliver again',
    done: 'They are under way.',
    explain: { device_not_found: 'There is no such device, or it has no events for this webhook.' },
  },
};
