// When a command has to end: Ctrl-C, SIGTERM, a closed terminal, and the end of npm. npm hands SIGTERM to the shell between it and
// the command, and that shell ends without passing it on.
const checkEveryMs = 200;

export function whenToldToStop(stop: () => void): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  whenNpmIsGone(stop);
}

export function whenNpmIsGone(stop: () => void): void {
  // Started by hand a command goes on without its parent: `node dev/start.js &` outlives its shell.
  if (process.env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, checkEveryMs);
  timer.unref();
}
