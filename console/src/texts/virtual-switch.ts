// Texts about the switch that lives in the page. Loaded with the device.
import type { UpdateFault } from '../switch/updates.ts';

export const virtualSwitchTexts = {
  title: 'The virtual switch itself',
  hint: 'It lives in this page and is a real device to the service. Pull its plug, make it slow, make it lie.',
  notNoticed: 'The service has not noticed yet: it waits some seconds, because most devices come right back.',
  noticed: 'The service shows it as offline, and why.',
  drawn: (position: string) => `A switch in the position ${position}`,
  connection: {
    unplugged: 'Unplugged',
    connecting: 'Connecting…',
    connected: 'Plugged in',
    refused: 'The service refuses its login',
    elsewhere: 'Plugged in in another tab',
  },
  byHand: 'Move it by hand',
  handTo: (position: string) => `Hand: ${position}`,
  slow: 'Slow: it obeys after 3 seconds',
  lie: 'Lies: it says that it moved, and does not',
  refuse: 'Refuses: it answers with an error',
  nextUpdate: (version: string) => `Firmware ${version}. Its next update`,
  updateFaults: {
    none: 'works',
    cut: 'is cut off by a power cut, and goes on',
    flip: 'has a wrong bit',
    old: 'does not start: the old version comes back',
    away: 'ends it: it does not come back',
  } satisfies Record<UpdateFault['name'], string>,
  lamp: {
    title: 'The lamp behind it',
    on: 'On',
    off: 'Off',
    power: (state: string, watts: number) => `${state}, power ${watts} W`,
    press: 'Press the lamp by hand',
    ignores: 'Ignores every fifth press of the switch',
  },
  pull: 'Pull the plug',
  plug: 'Plug it in',
};
