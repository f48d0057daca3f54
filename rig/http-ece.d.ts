// http_ece has no types.
declare module 'http_ece' {
  export function decrypt(body: Uint8Array, params: object): Buffer;
}
