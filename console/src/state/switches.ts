// The virtual switches of this browser: their logins are kept, so that they are the same devices after a reload. They stay
// plugged in while the page is open, whatever screen is shown.
import { makeSwitch, VirtualSwitch, type SwitchLogin } from '../switch/virtual-switch.ts';
import { session } from './session.ts';

const key = 'latchwork.switches';
const opened = new Map<string, VirtualSwitch>();

/** The switch behind a device, where this browser made it. */
export function switchOf(deviceId: string): VirtualSwitch | null {
  const known = opened.get(deviceId);
  if (known !== undefined) return known;
  const login = readLogins().find((one) => one.deviceId === deviceId);
  return login === undefined ? null : open(login);
}

/** Makes a new device and plugs it in. @returns its id @throws ApiError, NoAnswerError */
export async function addSwitch(): Promise<string> {
  const login = await makeSwitch(session().api);
  writeLogins([...readLogins(), login]);
  await open(login).plugIn();
  return login.deviceId;
}

/** Its device was deleted. */
export function forgetSwitch(deviceId: string): void {
  opened.get(deviceId)?.pullPlug();
  opened.delete(deviceId);
  writeLogins(readLogins().filter((one) => one.deviceId !== deviceId));
}

function open(login: SwitchLogin): VirtualSwitch {
  const made = new VirtualSwitch(login);
  opened.set(login.deviceId, made);
  return made;
}

function readLogins(): SwitchLogin[] {
  return JSON.parse(localStorage.getItem(key) ?? '[]') as SwitchLogin[];
}

function writeLogins(logins: SwitchLogin[]): void {
  localStorage.setItem(key, JSON.stringify(logins));
}
