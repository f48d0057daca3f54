// What applications import.
export type { DirectEndReason } from './api.ts';
export {
  runCommand,
  type Command,
  type CommandBody,
  type CommandOptions,
  type CommandReceipt,
  type ControlBody,
} from './command.ts';
export { followDevice, type DeviceListener, type DeviceState } from './follow-device.ts';
export {
  ApiError,
  createClient,
  dataOf,
  NoAnswerError,
  type Client,
  type ClientOptions,
  type Data,
  type HttpOptions,
  type Reason,
} from './http.ts';
export {
  Relay,
  RelayError,
  type Listener,
  type RelayLogin,
  type RelayMessage,
  type RelayOptions,
  type RelayState,
  type Subscription,
  type Token,
} from './relay.ts';
export {
  previewSchedule,
  putSchedule,
  runSchedule,
  type DueTime,
  type NextRun,
  type Run,
  type Schedule,
  type ScheduleBody,
} from './schedules.ts';
export { recordChangeOf, type RecordChange } from './topics.ts';
export { Session, type Login, type SessionOptions, type Tokens } from './session.ts';
export type { BackOffOptions } from './back-off.ts';
export type { WebSocketConstructor } from './relay-socket.ts';
