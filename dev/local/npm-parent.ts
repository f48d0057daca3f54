// npm hands SIGTERM to the shell between it and the script, and that shell dies without passing it on. A script that
// npm runs therefore stops when its parent is gone.
const checkEveryMs = 200;

export function whenNpmIsGone(stop: () => void): void {
  // Started by hand it must not stop then: `node dev/start.js &` outlives its shell.
  if (process.env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, checkEveryMs);
  timer.unref();
}
