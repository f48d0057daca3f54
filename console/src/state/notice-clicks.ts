// Clicks on notices, which the service worker hands over. "Try again" waits here until the screen of the device sends it, which is
// shown to signed-in users only. No address leads here: only the service worker of this origin can send a message.
import type { ControlBody } from '@latchwork/client';
import { signal } from '@preact/signals';
import { goTo } from '../router.ts';

export type NoticeClick =
  { type: 'open'; deviceId: string | null } | { type: 'try_again'; deviceId: string; again: ControlBody };

/** For who has to sign in first. Later nobody expects that a switch moves. */
const waitsMs = 2 * 60_000;

const waiting = signal<{ deviceId: string; body: ControlBody; untilMs: number } | null>(null);

if ('serviceWorker' in navigator) {
  navigator.serviceWorker.addEventListener('message', ({ data }: MessageEvent<NoticeClick>) => {
    const { deviceId } = data;
    waiting.value =
      data.type === 'try_again' ? { deviceId: data.deviceId, body: data.again, untilMs: Date.now() + waitsMs } : null;
    goTo(deviceId === null ? { screen: 'notices' } : { screen: 'device', deviceId });
  });
}

/** The command that is to be sent again to this device, once. Reading it makes an effect run again with the next one. */
export function takeTryAgain(deviceId: string): ControlBody | null {
  const next = waiting.value;
  if (next?.deviceId !== deviceId) return null;
  waiting.value = null;
  return next.untilMs < Date.now() ? null : next.body;
}
