// The functions of node:crypto in use, as workerd has it: the types of Node would bring its globals along.
declare module 'node:crypto' {
  export function scrypt(
    password: string,
    salt: Uint8Array,
    length: number,
    options: { N: number; r: number; p: number },
    callback: (error: Error | null, key: Uint8Array) => void,
  ): void;
  export function timingSafeEqual(one: Uint8Array, other: Uint8Array): boolean;
}
