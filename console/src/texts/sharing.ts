// Texts about the roles of members, and offers.
export const sharingTexts = {
  sharing: { roles: { operator: 'Operator', viewer: 'Viewer' } },
  offers: {
    invitation: 'Invitation',
    transfer: 'Offered device',
    invites: (who: string, device: string, role: string) => `${who} shares “${device}” with you as ${role}.`,
    offersDevice: (who: string, product: string, deviceId: string) => `${who} offers you a ${product} (${deviceId}).`,
    transferHint:
      'Once you accept, it is yours: what it remembers of its former owner is erased, and each password that a person has seen ends.',
    mustRenew: (deviceId: string) =>
      `${deviceId} is yours and has to be activated again: open its pairing window under Settings, then switch it off and on.`,
    until: (when: string) => `until ${when}`,
    accept: 'Accept',
    take: 'Take it over',
    block: 'Block the sender',
    blockOf: (email: string) => `Block the sender ${email}`,
    decline: 'Decline',
  },
};
