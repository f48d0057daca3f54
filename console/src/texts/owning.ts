// Texts about guest links and ownership: what an owner alone does with a device. Loaded with the parts that show them.
export const owningTexts = {
  guestLinks: {
    title: 'Guest links',
    hint: 'An address with one button, for somebody without an account: it sends one command and does nothing else.',
    none: 'No guest link.',
    make: 'Make a guest link',
    create: 'Make the link',
    command: 'What the button does',
    commands: {
      up: 'Move it up',
      middle: 'Move it to the middle',
      down: 'Move it down',
      pulse: 'Pulse',
      trigger: 'Trigger',
      right: 'Set 0 degrees',
      half: 'Set 90 degrees',
      left: 'Set 180 degrees',
    },
    life: 'Works for',
    lives: { hour: 'An hour', day: 'A day', week: 'A week', month: '30 days' },
    maxUses: 'How often it may be used',
    maxUsesHint: 'Empty: up to 1,000 times.',
    made: 'The new guest link',
    madeHint: 'Copy it now: the address is not shown again. Everybody who has it can press the button.',
    address: 'Address',
    used: (uses: number, max: number) => `used ${uses.toLocaleString('en')} of ${max.toLocaleString('en')}`,
    lastUsed: (when: string) => `last ${when}`,
    until: (when: string) => `until ${when}`,
    states: { used_up: 'used up', expired: 'expired', ended: 'ended: the device was disabled' },
    revoke: 'Revoke',
    revokeOf: (command: string) => `Revoke the link: ${command}`,
  },
  ownership: {
    title: 'Ownership',
    byProduct: 'It belongs to you as the owner of its product: nobody has claimed it.',
    claimed: (when: string) => `It is yours since ${when}.`,
    pairing: 'Pairing window',
    pairingHint:
      'A device that was reset activates again. Where its product lets only the owner allow that, open this window first, then ' +
      'switch the device on.',
    pairingOpen: 'Open the pairing window',
    pairingOpenAny: 'Open it for all networks',
    pairingElsewhere: 'It admits devices of your own network. In another network, give the device this address:',
    pairingLeft: (time: string) => `Open for ${time}`,
    pairingClose: 'Close it',
    mustRenew:
      'The device has to be activated again: its former owner has seen its password, which has ended. Open the pairing window, ' +
      'then switch the device off and on.',
    reactivation: 'Activating it again',
    reactivations: {
      open: 'Everybody who knows its serial number may activate it again. Close this after the repair.',
      owner: 'Only you may activate it again.',
      secret: 'Only the device itself may activate again, with its secret, or you.',
      never: 'Nobody may activate it again before you release it.',
    },
    reactivationOpen: 'Let everybody activate it',
    reactivationClose: 'Take this back',
    transfer: 'Hand over to somebody else',
    transferHint: 'Offer the device to another user. It stays yours until the offer is accepted.',
    email: 'Email of the new owner',
    offer: 'Offer it',
    transferWarning: (email: string) =>
      `Offer this device to ${email}? Once it is accepted, it is no longer yours: its members and guests are gone, and you see ` +
      'nothing of it any more.',
    offerConfirm: 'Offer it',
    offered: (email: string, until: string) => `Offered to ${email} until ${until}.`,
    withdraw: 'Withdraw the offer',
    release: 'Release this device',
    releaseHint: 'Give it up, for example before it is sold or returned.',
    releaseWarning: (name: string) =>
      `Release ${name}? It is no longer yours. Its history, commands and members are erased, its password ends at once, ` +
      'and anybody who has the device can claim it. This cannot be undone.',
    releaseConfirm: 'Release for good',
  },
};
