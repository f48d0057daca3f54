/** Why the relay sessions of a device end: travels from its session to the relay, which closes with it as the reason. */
export type RevokeCause = 'deleted' | 'owner_changed' | 'disabled' | 'credentials_rotated';
