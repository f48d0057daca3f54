// Keeps matter.js from reading this process's environment and arguments, and from handling its signals and errors: config.ts
// and run-service.ts do that. It takes effect when matter.js is loaded, so each file imports it before matter.js.
import { config } from '@matter/nodejs/config';

config.loadProcessArgv = false;
config.loadProcessEnv = false;
config.loadConfigFile = false;
config.trapProcessSignals = false;
config.trapUnhandledErrors = false;
config.setProcessExitCodeOnError = false;
