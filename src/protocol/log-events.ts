// Names of log lines that `npm start` shows as news of a device.
export const rejectedMessageEvent = 'device message rejected';
export const refusedDirectLoginEvent = 'direct login refused';
