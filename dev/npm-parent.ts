// npm hands SIGTERM to the shell between it and the script, and that shell dies without passing it on. A script that
// npm runs therefore takes the end of its parent as the order to stop.
const checkEveryMs = 200;

export function whenNpmIsGone(stop: () => void): void {
  // Started by hand, a lost parent means nothing: `node dev/start.ts &` outlives its shell.
  if (process.env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, checkEveryMs);
  timer.unref();
}
