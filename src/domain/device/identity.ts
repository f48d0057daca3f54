// Slice: whose device this is and what administration says of it. A copy of the record in D1, for paths without D1.

export type IdentitySlice = {
  deviceId: string;
  productKey: string;
  /** Whose it is now: the user who claimed it, else the product's owner. */
  ownerId: number;
  productOwnerId: number;
  /** Null while nobody has claimed it. */
  claimedAtMs: number | null;
  name: string;
  controlMode: string;
  offlineGraceSeconds: number;
  /** The change of the product that control mode and grace come from. */
  productChangedAtMs: number;
  isDisabled: boolean;
};

export type ProductFacts = Pick<IdentitySlice, 'controlMode' | 'offlineGraceSeconds' | 'productChangedAtMs'>;

/** As an earlier version saved it, too: then nobody had claimed it. */
export function readIdentity(saved: Omit<IdentitySlice, OwnershipFact> & Partial<IdentitySlice>): IdentitySlice {
  return { productOwnerId: saved.ownerId, claimedAtMs: null, ...saved };
}

type OwnershipFact = 'productOwnerId' | 'claimedAtMs';

/** An older change than the known one arrives too late and changes nothing. */
export function applyProductChange(identity: IdentitySlice, facts: ProductFacts): IdentitySlice {
  return facts.productChangedAtMs >= identity.productChangedAtMs ? { ...identity, ...facts } : identity;
}
