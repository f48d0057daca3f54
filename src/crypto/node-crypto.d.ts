// The functions of node:crypto that are used here. The types of Node would add Node's globals to the Worker.
declare module 'node:crypto' {
  export function scrypt(
    password: string,
    salt: Uint8Array,
    length: number,
    options: { N: number; r: number; p: number },
    callback: (error: Error | null, key: Uint8Array) => void,
  ): void;
  export function createECDH(curve: 'prime256v1'): {
    setPrivateKey(key: Uint8Array): void;
    getPublicKey(): Uint8Array;
  };
  export function timingSafeEqual(one: Uint8Array, other: Uint8Array): boolean;
}
