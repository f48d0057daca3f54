// Slice: whose device this is and what administration says of it. A copy of the record in D1, for paths without D1.

export type IdentitySlice = {
  deviceId: string;
  productKey: string;
  ownerId: number;
  name: string;
  controlMode: string;
  offlineGraceSeconds: number;
  /** The change of the product that control mode and grace come from. */
  productChangedAtMs: number;
  isDisabled: boolean;
};

export type ProductFacts = Pick<IdentitySlice, 'controlMode' | 'offlineGraceSeconds' | 'productChangedAtMs'>;

/** An older change than the known one arrives too late and changes nothing. */
export function applyProductChange(identity: IdentitySlice, facts: ProductFacts): IdentitySlice {
  return facts.productChangedAtMs >= identity.productChangedAtMs ? { ...identity, ...facts } : identity;
}
