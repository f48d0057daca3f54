// How the devices of a product are controlled (interface 2.4). Only `readonly` is a rule of the service; the others
// tell applications which screen to show.

export const controlModes = ['toggle', 'pulse', 'dimmer', 'readonly', 'generic'] as const;
