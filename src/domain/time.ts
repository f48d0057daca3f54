// Lengths of time in milliseconds, and the form in which times leave the service.
export const secondMs = 1_000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

export function toIso(timeMs: number): string;
export function toIso(timeMs: number | null): string | null;
export function toIso(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}
