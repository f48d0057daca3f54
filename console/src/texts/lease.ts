// Texts about a lease: a position for a while, and the one after it.
export const leaseTexts = {
  title: 'For a while',
  offer: 'Press it for a while',
  first: 'Now',
  minutes: 'For so many minutes',
  then: 'After that',
  start: 'Start',
  running: (then: string, left: string) => `${then} in ${left}`,
  due: (then: string) => `${then} now`,
  hint: 'It is pressed by itself then, and again until a report shows it. A newer command, or a hand at the device, ends this.',
  pursuing: (then: string) => `Still not ${then}: trying again`,
  tried: (count: number) => (count === 1 ? 'Tried once' : `Tried ${count} times`),
  again: (left: string) => `, next in ${left}`,
  waits: ', next when the device comes back',
  end: 'End now',
  keep: 'Leave it so',
  stop: 'Stop trying',
};
