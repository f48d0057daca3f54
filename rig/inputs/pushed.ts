// What a test inside workerd learns from the push service beside it (push-service.ts), which has types of Node.
export type Pushed = {
  headers: Record<string, string>;
  text: string;
  key: string;
  claims: { aud: string; sub: string; exp: number };
};

declare module 'vitest' {
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions -- only interfaces merge
  interface ProvidedContext {
    pushService: { url: string; keys: { p256dh: string; auth: string } };
  }
}
