// What a user is told without asking. A device's object raises and clears the notices of the device, a service those of the account;
// the user's inbox keeps them and pushes them to phones. No text for people is in here.
import type { NoticeSettings } from '../protocol/http/notices.ts';
import type { NoticeCause } from '../protocol/vocabulary.ts';
import type { ControlParams } from './control-command.ts';
import { toIso } from './time.ts';

/** Of the account: `deviceId` is null. `again`: the command that "Try again" sends. */
export type Notice = {
  cause: NoticeCause;
  deviceId: string | null;
  deviceName: string | null;
  atMs: number;
  /** By cause: since when, which run with its outcome and reason, which position, which security event. */
  detail: Record<string, string | number | null>;
  again: ControlParams | null;
};

/** A notice replaces the former one of its `key`. Null: its cause is gone. */
export type NoticeChange = { key: string; notice: Notice | null };

/** As an inbox has it. */
export type KeptNotice = Notice & { key: string; noticeId: string; isRead: boolean };

export function viewNotice(kept: KeptNotice) {
  const { key: _, atMs, ...notice } = kept;
  return { ...notice, at: toIso(atMs) };
}

/**
 * What devices have to know of a user's settings; `offlineAfterSeconds` null: the device's own usual gaps count. `zone`: of the user's
 * days.
 */
export type NoticeRules = Pick<NoticeSettings, 'offlineAfterSeconds' | 'handHours'> & { zone?: string };

export const defaultNoticeRules: NoticeRules = { offlineAfterSeconds: null, handHours: null };
