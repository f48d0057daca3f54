// Slice: the firmware that the device runs, and the update that a campaign has offered to it. What the device says moves an update on and
// never proves it: that does only the new version, reported in a session that began after the download ended. Each state has an end.
import type { UpdateReason, UpdateState } from '../../../protocol/vocabulary.ts';
import type { DeviceFirmware } from '../../../protocol/http/firmware.ts';
import { compareVersions, type Inform, type Progress } from '../../../protocol/firmware.ts';
import { accept, refused } from '../../refusal.ts';
import { dayMs, hourMs, minuteMs, secondMs, toIso } from '../../time.ts';
import { spend } from '../../token-bucket.ts';
import type { Decision, Handler } from '../core/events.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import type { UpdateMessage } from '../messages/messages.ts';

/** `orderedAtMs`: of the campaign. `hash`: the begin of the image's. */
export type Offer = {
  campaignId: string;
  orderedAtMs: number;
  productKey: string;
  version: string;
  minimumVersion: string | null;
  size: number;
  hash: string;
  isSecurity: boolean;
};

type Update = Omit<Offer, 'minimumVersion' | 'productKey'> & {
  state: UpdateState;
  reason: UpdateReason | null;
  /** The device's word for what went wrong. */
  error: string | null;
  percent: number;
  /** When it reached each state last. */
  reachedAtMs: Readonly<Partial<Record<UpdateState, number>>>;
  /** When something came of it last. */
  movedAtMs: number;
  formerVersion: string | null;
  told: { times: number; atMs: number };
  downloaded: Download | null;
};

/**
 * What informs later than its end, in a newer session, counts. `isRestart`: a device that comes back has restarted.
 * `formerAtMs`: the newer session in which the former version was heard. That word may be of the session before.
 */
type Download = { atMs: number; sessionAtMs: number; isRestart: boolean; formerAtMs?: number };

type Installed = Inform & { atMs: number };
type FirmwareSlice = {
  installed: Installed | null;
  /** When the device last announced itself, while a restart is waited for: without the broker's reports a session begins so. */
  announcedAtMs: number;
  update: Update | null;
};

/** Any other state but `postponed` is an end. `failsAs`: why, when its time is over. */
const timesOfStates: Partial<Record<UpdateState, { lifeMs: number; failsAs: UpdateReason }>> = {
  offered: { lifeMs: 30 * dayMs, failsAs: 'not_reached' },
  accepted: { lifeMs: hourMs, failsAs: 'too_slow' },
  downloading: { lifeMs: dayMs, failsAs: 'too_slow' },
  downloaded: { lifeMs: dayMs, failsAs: 'not_installed' },
  restarting: { lifeMs: hourMs, failsAs: 'not_back' },
};
/** After it, it is offered again. */
const postponedMs = 30 * dayMs;
/** Whatever the device says meanwhile. */
const longestMs = 30 * dayMs;
const tellEveryMs = 10 * minuteMs;
const maxTold = 6;
/** After a restart. */
const backForMs = 10 * minuteMs;
/** The broker's clock, and reports that overtake each other. */
const slackMs = 2 * secondMs;
/** Small chips read a few KiB at a time. */
const fetchesPerMinute = 600;

export const firmwareSlice: Slice<FirmwareSlice> = {
  initial: { installed: null, announcedAtMs: 0, update: null },
  row: 'own',
  isWorthSaving: ({ firmware: saved }, { firmware }) =>
    saved !== firmware &&
    worthSaving(saved, isOpen(firmware.update)) !== worthSaving(firmware, isOpen(firmware.update)),
  dueAtMs: (state) => {
    const { update } = state.firmware;
    if (update === null) return Infinity;
    const isTelling = update.state === 'offered' && state.presence.connection.isOnline;
    return Math.min(endsAtMs(state), isTelling ? update.told.atMs + tellEveryMs : Infinity);
  },
  onNewOwner: 'keep',
  onMove: ({ firmware }) => ({ ...firmware, update: null }),
};

/** Of the download every tenth part; when it informed last as long as an update is judged by it. */
function worthSaving({ installed, announcedAtMs, update }: FirmwareSlice, isJudged: boolean): string {
  const { campaignId, state, told, downloaded, percent = 0 } = update ?? {};
  const informed = isJudged ? installed : { ...installed, atMs: 0 };
  return JSON.stringify([informed, announcedAtMs, campaignId, state, told, downloaded, Math.floor(percent / 10)]);
}

/** Infinity: it has ended. */
function endsAtMs({ firmware: { update }, presence }: DeviceState): number {
  if (update === null) return Infinity;
  const { state, movedAtMs, reachedAtMs } = update;
  if (state === 'postponed') return movedAtMs + postponedMs;
  const { isOnline, onlineSinceMs } = presence.connection;
  // It is back, or has not gone: what it runs it says soon, or never.
  if (state === 'restarting' && isOnline) return Math.max(movedAtMs, onlineSinceMs ?? 0) + backForMs;
  const life = timesOfStates[state];
  return life ? Math.min(movedAtMs + life.lifeMs, (reachedAtMs.offered ?? 0) + longestMs) : Infinity;
}

const isOpen = (update: Update | null): update is Update =>
  update !== null && (update.state === 'postponed' || timesOfStates[update.state] !== undefined);
/** Its owner has not put it off. */
const isUnderWay = (update: Update | null): update is Update => isOpen(update) && update.state !== 'postponed';

function newestSessionAtMs({ presence, firmware }: DeviceState): number {
  return Math.max(presence.connection.sessionStartedAtMs ?? 0, firmware.announcedAtMs);
}

/** The device says that it is online. Where neither broker nor login tells of sessions, one begins so. */
export function noteAnnounced(state: DeviceState, atMs: number): DeviceState {
  const { firmware, presence } = state;
  const isMeant = isOpen(firmware.update) && firmware.update.downloaded !== null;
  if (!isMeant || presence.connection.sessionStartedAtMs !== null) return state;
  return { ...state, firmware: { ...firmware, announcedAtMs: Math.max(atMs, firmware.announcedAtMs + 1) } };
}

function change(state: DeviceState, changes: Partial<Update>, nowMs: number): DeviceState {
  const { update } = state.firmware;
  if (update === null) return state;
  const reached = changes.state === undefined ? {} : { [changes.state]: nowMs };
  const reachedAtMs = { ...update.reachedAtMs, ...reached };
  const changed = { ...update, ...changes, reachedAtMs, movedAtMs: nowMs };
  return { ...state, firmware: { ...state.firmware, update: changed } };
}

const end = (state: DeviceState, to: UpdateState, reason: UpdateReason | null, nowMs: number) =>
  change(state, { state: to, reason }, nowMs);

/** What a campaign knows of one of its devices. */
export type UpdateReport = {
  state: UpdateState | 'skipped';
  reason: UpdateReason | 'has_version' | 'below_minimum' | null;
  isOnline: boolean;
};

/** Offers it, or says what became of it: the same offer again changes nothing. With `isStopped` a download ends here. */
export const offerUpdate: Handler<'update_offered'> = (state, { offer, isStopped }, { nowMs }) => {
  const { identity, firmware } = state;
  const { deviceId: id } = identity;
  if (offer.productKey !== identity.productKey) return refused(state, { kind: 'not_found', what: 'device', id });
  const { update: present, installed } = firmware;
  const { isOnline } = state.presence.connection;
  const answer = (next: DeviceState, { state: reached, reason }: Omit<UpdateReport, 'isOnline'>) => ({
    state: next,
    result: accept({ state: reached, reason, isOnline }),
  });
  if (present?.campaignId === offer.campaignId) {
    const isCut = isStopped && isOpen(present) && present.downloaded === null;
    const next = isCut ? end(state, 'superseded', 'stopped', nowMs) : state;
    return answer(next, next.firmware.update ?? present);
  }
  if (isStopped) return answer(state, { state: 'superseded', reason: 'stopped' });
  if (present !== null && present.orderedAtMs >= offer.orderedAtMs)
    return answer(state, { state: 'superseded', reason: 'newer_campaign' });
  const { minimumVersion, productKey: _, ...offered } = offer;
  const formerVersion = installed?.version ?? null;
  const isBelow = (version: string | null) =>
    formerVersion !== null && version !== null && compareVersions(formerVersion, version) < 0;
  if (formerVersion !== null && !isBelow(offer.version))
    return answer(state, { state: 'skipped', reason: 'has_version' });
  if (isBelow(minimumVersion)) return answer(state, { state: 'skipped', reason: 'below_minimum' });
  const begin = { state: 'offered', reason: null, error: null, percent: 0, downloaded: null } as const;
  const times = { reachedAtMs: { offered: nowMs }, movedAtMs: nowMs, told: { times: 0, atMs: 0 } };
  const update = { ...offered, ...begin, ...times, formerVersion };
  return answer({ ...state, firmware: { ...firmware, update } }, begin);
};

/** By the owner, before anything of it was fetched. */
export const postponeUpdate: Handler<'update_postponed'> = (state, _, { nowMs }) => {
  const { update } = state.firmware;
  if (update?.state !== 'offered') return refused(state, { kind: 'not_found', what: 'update' });
  const { isSecurity, version } = update;
  if (isSecurity) return refused(state, { kind: 'update_needed', version });
  return { state: change(state, { state: 'postponed' }, nowMs), result: accept(null) };
};

/** A part of the image is about to be sent. `endsAt`: the byte behind it; null of the manifest. */
export const noteFetch: Handler<'image_asked'> = (state, { campaignId, endsAt }, { nowMs }) => {
  const { update } = state.firmware;
  if (update?.campaignId !== campaignId || !isUnderWay(update)) return refused(state, { kind: 'update_ended' });
  const fetches = spend(state.budgets.fetches, fetchesPerMinute, nowMs);
  if (fetches === undefined) {
    const limit = 'imageRequestsPerMinute';
    return refused(state, { kind: 'rate_limited', limit, retryAfterSeconds: 1 });
  }
  const asked = { ...state, budgets: { ...state.budgets, fetches } };
  return { state: endsAt === null ? asked : noteBytes(asked, update, endsAt, nowMs), result: accept(null) };
};

function noteBytes(state: DeviceState, { size }: Update, endsAt: number, nowMs: number): DeviceState {
  if (endsAt >= size) return endDownload(state, nowMs);
  const percent = Math.floor((100 * endsAt) / size);
  return change(state, { state: 'downloading', percent, downloaded: null }, nowMs);
}

function endDownload(state: DeviceState, nowMs: number): DeviceState {
  const downloaded = { atMs: nowMs, sessionAtMs: newestSessionAtMs(state), isRestart: false };
  return change(state, { state: 'downloaded', percent: 100, downloaded }, nowMs);
}

/** What it informed of so far says nothing of what it runs then: it may be back within the slack. */
function awaitRestart(state: DeviceState, to: UpdateState, downloaded: Download, nowMs: number): DeviceState {
  const atMs = Math.max(downloaded.atMs, (state.firmware.installed?.atMs ?? 0) + 1);
  return change(state, { state: to, downloaded: { ...downloaded, atMs, isRestart: true } }, nowMs);
}

export function takeUpdateMessage(
  state: DeviceState,
  message: UpdateMessage,
  atMs: number,
  { nowMs, effects }: Decision,
): DeviceState {
  const { update } = state.firmware;
  switch (message.about) {
    case 'inform': {
      const { version } = message.body;
      const { installed: before, announcedAtMs } = state.firmware;
      // Messages come in order, and their times only nearly so.
      const installed = { ...message.body, atMs: Math.max(atMs, announcedAtMs, (before?.atMs ?? 0) + 1) };
      // What it may go back to: of a device that was offered it, or fetched it, before it told of itself, too.
      const isInstalled = update?.downloaded && newestSessionAtMs(state) > update.downloaded.sessionAtMs;
      const isFormer = isOpen(update) && !isInstalled && version !== update.version;
      const noted = isFormer ? { ...update, formerVersion: version } : update;
      const next = { ...state, firmware: { ...state.firmware, installed, update: noted } };
      // Its power failed after it had reported the new version, and before it had noted to keep it.
      const isBack = update?.state === 'proved' && version === update.formerVersion;
      return isBack ? end(next, 'rolled_back', null, nowMs) : next;
    }
    case 'progress':
      return isUnderWay(update) ? takeProgress(state, update, message.body, nowMs) : state;
    case 'get': {
      const campaignId = isUnderWay(update) ? update.campaignId : null;
      effects.push({ kind: 'send_image', campaignId, ...message.body });
      return state;
    }
  }
}

function takeProgress(
  state: DeviceState,
  update: Update,
  { step, percent, error }: Progress,
  nowMs: number,
): DeviceState {
  switch (step) {
    case 'accepted':
      return update.state === 'offered' ? change(state, { state: step }, nowMs) : state;
    case 'downloading': {
      // Of a download in one piece the service has sent all, long before the device has it.
      const reached = update.downloaded === null ? { state: step } : {};
      return change(state, { ...reached, percent: Math.floor(percent ?? update.percent) }, nowMs);
    }
    case 'downloaded':
      return update.downloaded === null ? endDownload(state, nowMs) : state;
    case 'restarting':
      // What was not fetched cannot be installed.
      if (update.downloaded === null) return state;
      return awaitRestart(state, step, update.downloaded, nowMs);
    case 'failed':
      return change(state, { state: step, reason: 'device_error', error: error ?? null }, nowMs);
  }
}

/** Of each event: what sessions and versions say of the update, its times, and who is told. */
export function followUpdate(before: DeviceState, state: DeviceState, decision: Decision): DeviceState {
  const { nowMs, effects } = decision;
  const { update } = state.firmware;
  const judged = isOpen(update) ? tell(before, endOverdue(judge(state, update, nowMs), nowMs), decision) : state;
  const [former, present] = [before.firmware.update, judged.firmware.update];
  // Who offers it knows.
  if (present !== null && present.campaignId === former?.campaignId && present.state !== former.state) {
    const { campaignId, state: reached, reason } = present;
    const { isOnline } = judged.presence.connection;
    effects.push({ kind: 'tell_campaign', campaignId, report: { state: reached, reason, isOnline } });
  }
  return judged;
}

/** At the begin of each session, when the device has informed; and again while it is online and does not answer. */
function tell(before: DeviceState, state: DeviceState, { nowMs, effects }: Decision): DeviceState {
  const { update, installed } = state.firmware;
  if (!isUnderWay(update) || update.state === 'restarting') return state;
  const { told, campaignId, version, size, hash } = update;
  // Its new session may be reported after it has informed.
  const isSecondTry = update.downloaded?.isRestart === true && before.firmware.update?.state === 'restarting';
  const hasInformed = before.firmware.installed !== installed || isSecondTry;
  const isUnanswered = update.state === 'offered' && state.presence.connection.isOnline;
  if (!hasInformed && !(isUnanswered && nowMs >= told.atMs + tellEveryMs)) return state;
  if (!hasInformed && told.times >= maxTold) return end(state, 'failed', 'no_answer', nowMs);
  effects.push({ kind: 'tell_upgrade', campaignId, version, size, hash });
  const noted = { ...update, told: { times: told.times + 1, atMs: nowMs } };
  return { ...state, firmware: { ...state.firmware, update: noted } };
}

function judge(state: DeviceState, update: Update, nowMs: number): DeviceState {
  const { version, formerVersion, downloaded, reachedAtMs } = update;
  const { installed } = state.firmware;
  if (downloaded === null) {
    const hasIt = installed?.version === version && installed.atMs > (reachedAtMs.offered ?? 0);
    return hasIt ? end(state, 'unknown', 'not_downloaded', nowMs) : state;
  }
  const sessionAtMs = newestSessionAtMs(state);
  const isLater = sessionAtMs > downloaded.sessionAtMs && sessionAtMs >= downloaded.atMs - slackMs;
  const isUnheard = isLater && sessionAtMs > (downloaded.formerAtMs ?? 0);
  if (isLater && installed !== null && installed.atMs >= Math.max(downloaded.atMs, sessionAtMs - slackMs)) {
    if (installed.version === version) return end(state, 'proved', null, nowMs);
    if (installed.version !== formerVersion) return end(state, 'unknown', 'other_version', nowMs);
    if (isUnheard && downloaded.isRestart) return end(state, 'rolled_back', null, nowMs);
    // Without its word that it restarts, the connection alone may have been lost: once.
    if (isUnheard) return awaitRestart(state, 'downloaded', { ...downloaded, formerAtMs: sessionAtMs }, nowMs);
  }
  const isGone = !state.presence.connection.isOnline || isUnheard;
  return update.state === 'downloaded' && isGone ? change(state, { state: 'restarting' }, nowMs) : state;
}

function endOverdue(state: DeviceState, nowMs: number): DeviceState {
  const { update } = state.firmware;
  if (update === null || endsAtMs(state) > nowMs) return state;
  if (update.state === 'postponed') return change(state, { state: 'offered', told: { times: 0, atMs: 0 } }, nowMs);
  if (update.state === 'restarting' && state.presence.connection.isOnline)
    return end(state, 'unknown', 'no_version', nowMs);
  return end(state, 'failed', timesOfStates[update.state]?.failsAs ?? null, nowMs);
}

/** For those who may read the device. */
export function viewFirmware(state: DeviceState): DeviceFirmware {
  const { installed, update } = state.firmware;
  const endsAt = endsAtMs(state);
  const viewInstalled = ({ atMs, ...inform }: Installed) => ({ ...inform, reportedAt: toIso(atMs) });
  return {
    installed: installed && viewInstalled(installed),
    update: update && {
      campaignId: update.campaignId,
      version: update.version,
      formerVersion: update.formerVersion,
      state: update.state,
      reason: update.reason,
      error: update.error,
      percent: update.percent,
      security: update.isSecurity,
      endsAt: Number.isFinite(endsAt) ? toIso(endsAt) : null,
      steps: Object.entries(update.reachedAtMs)
        .sort(([, one], [, other]) => one - other)
        .map(([reached, atMs]) => ({ state: reached as UpdateState, time: toIso(atMs) })),
    },
  };
}
