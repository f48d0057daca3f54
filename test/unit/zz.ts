import { dataOf, type Client, type Data } from '../../src/client.ts';
declare const c: Client;
type F = Client['devices'][':deviceId']['status']['$get'];
export const x: Data<F> = 5;
export const y: number = await dataOf(c.devices[':deviceId'].status.$get({ param: { deviceId: 'x' } }));
type R = Awaited<ReturnType<F>>;
export const z: number = null as unknown as Awaited<ReturnType<Extract<R, { status: 200 }>['json']>>;
