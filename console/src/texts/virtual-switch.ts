// Texts about the switch that lives in the page. Loaded with the device.
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
  pull: 'Pull the plug',
  plug: 'Plug it in',
};
