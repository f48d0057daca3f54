// Why relay sessions with a device's credentials end. The words are also the reason of the socket's close.

export type RevocationCause = 'deleted' | 'disabled' | 'credentials rotated';
