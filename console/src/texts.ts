// Every text of the console, in English, by subject in the folder beside this: a translation is another set of the same shape. Those of
// adding a device, of groups, of products, of the account, of webhooks and notices, of what devices did and why, and of an owner's work are
// loaded with the parts that show them.
// Holds no markup and no logic but numbers put into sentences.
import { devicesTexts } from './texts/devices.ts';
import { errorsTexts } from './texts/errors.ts';
import { sharingTexts } from './texts/sharing.ts';
import { signInTexts } from './texts/sign-in.ts';

export const texts = {
  product: 'Latchwork',
  nav: { devices: 'Devices', groups: 'Groups', products: 'Products', settings: 'Settings', skip: 'Skip to content' },
  notices: { title: 'Notices', unread: (count: number) => `${count} unread` },
  live: {
    open: 'Live',
    connecting: 'Connecting…',
    waiting: (why: string) => `Not live: ${why}. Trying again.`,
    ended: (why: string) => `Not live: ${why}.`,
    lost: 'the connection was lost',
    /** By the words of the relay. */
    causes: {
      'no sign of life': 'the service does not answer',
      'token expired': 'the sign-in was not renewed in time',
      'too many sockets of this user': 'you have too many pages open',
      'account disabled': 'your account is disabled',
    } as Partial<Record<string, string>>,
    asOf: (time: string) => `As of ${time}. What has changed since is not known.`,
  },
  copy: 'Copy',
  copied: 'Copied',
  notCopied: 'The browser does not let the page copy: select the text.',
  close: 'Close',
  retry: 'Try again',
  more: 'Show more',
  reload: 'Load the page again',
  notLoaded: 'This part of the page could not be loaded: the connection is gone, or the service has a newer page.',
  loading: 'Loading…',
  ago: {
    now: 'just now',
    seconds: (count: number) => `${count} s ago`,
    minutes: (count: number) => `${count} min ago`,
    hours: (count: number) => `${count} h ago`,
    days: (count: number) => (count === 1 ? 'yesterday' : `${count} days ago`),
  },
  ...signInTexts,
  ...devicesTexts,
  ...sharingTexts,
  ...errorsTexts,
};
