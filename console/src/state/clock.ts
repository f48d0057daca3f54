// The present time for texts like "5 min ago", once a second while the page is visible.
import { signal } from '@preact/signals';
import { texts } from '../texts.ts';

export const nowMs = signal(Date.now());

setInterval(() => {
  if (!document.hidden) nowMs.value = Date.now();
}, 1000);
addEventListener('visibilitychange', () => (nowMs.value = Date.now()));

/** How long ago, in words that change while the page is looked at. */
export function ago(timeMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs.value - timeMs) / 1000));
  if (seconds < 5) return texts.ago.now;
  if (seconds < 60) return texts.ago.seconds(seconds);
  if (seconds < 3600) return texts.ago.minutes(Math.floor(seconds / 60));
  if (seconds < 86_400) return texts.ago.hours(Math.floor(seconds / 3600));
  return texts.ago.days(Math.floor(seconds / 86_400));
}

export function clockTime(timeMs: number): string {
  const time = new Date(timeMs);
  const isToday = time.toDateString() === new Date(nowMs.value).toDateString();
  return isToday
    ? time.toLocaleTimeString('en-GB')
    : time.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
}

/** What is left, as "4:59" or "1:04:59". */
export function countdown(leftMs: number): string {
  const seconds = Math.max(0, Math.ceil(leftMs / 1000));
  const two = (count: number) => String(count % 60).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  const start = minutes < 60 ? `${minutes}` : `${Math.floor(minutes / 60)}:${two(minutes)}`;
  return `${start}:${two(seconds)}`;
}
