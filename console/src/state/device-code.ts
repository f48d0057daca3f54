// The code on a device's box: product, serial number and claim code, as the address of this console that adds the device. A
// phone's camera opens it; the part after `#` is sent to nobody.
export type DeviceCode = { productKey: string; deviceSN: string; claimCode: string };

export function addressOf({ productKey, deviceSN, claimCode }: DeviceCode, origin = location.origin): string {
  return `${origin}/#/add/${[productKey, deviceSN, claimCode].map(encodeURIComponent).join('/')}`;
}

/** @param parts of the address after `add`; undefined unless they are a code */
export function codeOf(parts: readonly (string | undefined)[]): DeviceCode | undefined {
  const [productKey = '', deviceSN = '', claimCode = ''] = parts;
  return [productKey, deviceSN, claimCode].includes('') ? undefined : { productKey, deviceSN, claimCode };
}
