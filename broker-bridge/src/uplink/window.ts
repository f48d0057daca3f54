// How many batches may be under way at once: enough to keep a distant Worker busy, and few enough that the messages of a
// device gather meanwhile. Pure: times are passed in.

export const smallestWindow = 3;
const largestWindow = 12;

/** The next size, after a full batch was answered while all of the window was under way. The times include the way. */
export function resizeWindow(size: number, answerMs: number, roundTripMs: number | null): number {
  if (roundTripMs === null) return size;
  const atWorkerMs = answerMs - roundTripMs;
  // Shorter than the way: the Worker waits for batches. Much longer: they wait for the Worker.
  if (atWorkerMs < roundTripMs / 2) return Math.min(largestWindow, size + 1);
  return atWorkerMs > roundTripMs * 1.5 ? Math.max(smallestWindow, size - 1) : size;
}
