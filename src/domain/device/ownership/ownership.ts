// Slices: whose device this is, a copy of the record in D1 for paths without D1; how it passes from one owner to another, and
// what a known serial has to show to activate again (decision: ownership).
import type { Slice, DeviceState } from '../core/state.ts';
import * as words from '../../../protocol/vocabulary.ts';
import type { MemberRole } from '../../access.ts';
import { appendHistory, type JournalEntry } from '../core/history.ts';
import { toIso } from '../../time.ts';

export type IdentitySlice = {
  deviceId: string;
  productKey: string;
  /** Whose it is now: the user who claimed it, else the product's owner. */
  ownerId: number;
  productOwnerId: number;
  claimedAtMs: number | null;
  /** When a claim token claimed it. A transfer keeps it: the product's owner may undo the claim for a while. */
  tokenUsedAtMs?: number | null;
  name: string;
  controlMode: string;
  offlineGraceSeconds: number;
  /** Its firmware takes a command back by itself after `holdSeconds`. */
  supportsHold?: boolean;
  /** The product's; if the device is claimed, the strictest that its product has had since the claim. */
  reactivation: words.ReactivationPolicy | null;
  /** The change of the product that these three come from. */
  productChangedAtMs: number;
  isDisabled: boolean;
};

/** What a device is told of its product. */
export const productFacts = ['controlMode', 'offlineGraceSeconds', 'supportsHold', 'reactivation'] as const;
export type ProductFacts = Pick<IdentitySlice, (typeof productFacts)[number] | 'productChangedAtMs'>;
type Product = Required<Omit<ProductFacts, 'productChangedAtMs'>> & { updatedAt: number };

export function productFactsOf(product: Product): ProductFacts {
  const { controlMode, offlineGraceSeconds, supportsHold, reactivation, updatedAt: productChangedAtMs } = product;
  return { controlMode, offlineGraceSeconds, supportsHold, reactivation, productChangedAtMs };
}

/** A change that is older than the last change applied arrives too late and changes nothing. */
export function applyProductChange(identity: IdentitySlice, facts: ProductFacts): IdentitySlice {
  if (facts.productChangedAtMs < identity.productChangedAtMs) return identity;
  const isClaimed = identity.claimedAtMs !== null;
  const reactivation = isClaimed ? strictest(identity.reactivation, facts.reactivation) : facts.reactivation;
  return { ...identity, ...facts, reactivation };
}

/** Of a claimed device, which needs at least `owner`, as with null. Why they are in this order: decision: activation. */
function strictest(...policies: (words.ReactivationPolicy | null)[]): words.ReactivationPolicy {
  const strictness = policies.map((policy) => words.reactivationPolicies.indexOf(policy ?? 'owner'));
  return words.reactivationPolicies[Math.max(1, ...strictness)] ?? 'never';
}

/** @param policy of the product now, which the object may not have been told yet */
function reactivationOf(
  { identity, ownership }: DeviceState,
  policy: words.ReactivationPolicy | null,
): words.ReactivationPolicy {
  if (identity.claimedAtMs === null) return policy ?? 'open';
  return ownership.isOpen ? 'open' : strictest(identity.reactivation, policy);
}

export type OwnershipSlice = {
  /** Grows with each change of owner: storage keeps nothing from the period before. */
  period: number;
  /** From a release to the next claim. */
  isReleased: boolean;
  /** Its owner lets everybody activate it who knows the serial. */
  isOpen: boolean;
  pairing: PairingWindow | null;
  offer: TransferOffer | null;
  entries: number;
  /** The version of the projection from which on D1 has to be told the owner; null if it has the owner. */
  ownerVersion: number | null;
};

/** `network`: that of its opener, the only one that it admits; null: it admits all. */
export type PairingWindow = { untilMs: number; network: string | null };

/** `toUserId` is null if nobody has the e-mail; the offering owner is not told. */
export type TransferOffer = {
  offerId: string;
  email: string;
  toUserId: number | null;
  offeredAtMs: number;
  expiresAtMs: number;
};

export const identitySlice: Slice<IdentitySlice> = {
  // Only an activation makes a device, and it says all of this.
  initial: {
    deviceId: '',
    productKey: '',
    ownerId: 0,
    productOwnerId: 0,
    claimedAtMs: null,
    name: '',
    controlMode: '',
    offlineGraceSeconds: 0,
    reactivation: null,
    productChangedAtMs: 0,
    isDisabled: false,
  },
  row: 'administration',
  onNewOwner: 'keep',
};

export const ownershipSlice: Slice<OwnershipSlice> = {
  initial: { period: 0, isReleased: false, isOpen: false, pairing: null, offer: null, entries: 0, ownerVersion: null },
  row: 'administration',
  onNewOwner: ({ ownership: { period, entries } }) => ({ ...ownershipSlice.initial, period: period + 1, entries }),
};

/**
 * What came with an activation. `claimantId`: the user of its claim token. `lacksCode`: the device has a claim code, which that user
 * has not shown. `address`: of its sender, or its network.
 */
export type ActivationProof = {
  claimantId: number | undefined;
  lacksCode: boolean;
  isSecretRight: boolean;
  address: string | null;
};

export function judgeActivation(
  state: DeviceState,
  { claimantId, lacksCode, isSecretRight, address }: ActivationProof,
  productPolicy: words.ReactivationPolicy | null,
  nowMs: number,
): { isAllowed: true; reason: words.ActivationReason } | { isAllowed: false; reason: words.ActivationRefusalReason } {
  const { identity, ownership, credentials } = state;
  const isClaimed = identity.claimedAtMs !== null;
  const isOwners = claimantId === identity.ownerId;
  if (isClaimed && claimantId !== undefined && !isOwners) return { isAllowed: false, reason: 'not_the_owner' };
  if (!isClaimed && lacksCode) return { isAllowed: false, reason: 'no_claim_code' };
  if (!isClaimed && ownership.isReleased) return { isAllowed: true, reason: 'after_release' };
  const policy = reactivationOf(state, productPolicy);
  // Without a secret, after a transfer or a loss of the session, its owner has to let it in.
  switch (policy === 'secret' && credentials.secretDigest === '' ? 'owner' : policy) {
    case 'open':
      return { isAllowed: true, reason: isOwners ? 'with_token' : 'open' };
    case 'owner': {
      if (isOwners) return { isAllowed: true, reason: 'with_token' };
      const pairing = openPairing(ownership, nowMs);
      if (pairing === undefined) return { isAllowed: false, reason: 'no_window' };
      const isAdmitted = pairing.network === null || pairing.network === address;
      return isAdmitted ? { isAllowed: true, reason: 'in_window' } : { isAllowed: false, reason: 'other_network' };
    }
    case 'secret':
      return isSecretRight ? { isAllowed: true, reason: 'with_secret' } : { isAllowed: false, reason: 'wrong_secret' };
    case 'never':
      return { isAllowed: false, reason: 'not_released' };
  }
}

function openPairing({ pairing }: OwnershipSlice, nowMs: number): PairingWindow | undefined {
  return pairing !== null && nowMs < pairing.untilMs ? pairing : undefined;
}

export function openOffer({ offer }: OwnershipSlice, nowMs: number): TransferOffer | undefined {
  return offer !== null && nowMs < offer.expiresAtMs ? offer : undefined;
}

export function viewOwnership(state: DeviceState, nowMs: number) {
  const { identity, ownership, credentials } = state;
  const offer = openOffer(ownership, nowMs);
  return {
    deviceId: identity.deviceId,
    claimedAt: toIso(identity.claimedAtMs),
    pairingUntil: toIso(openPairing(ownership, nowMs)?.untilMs ?? null),
    transfer: offer === undefined ? null : { email: offer.email, expiresAt: toIso(offer.expiresAtMs) },
    reactivation: reactivationOf(state, identity.reactivation),
    /** No password is left: the device has to be activated again. */
    mustRenew: credentials.passwords.length === 0,
  };
}

export function note(
  state: DeviceState,
  reason: words.OwnershipChange,
  address: string | null,
  nowMs: number,
): DeviceState {
  return append(state, { reason, time: nowMs, address });
}

export function noteMembership(
  state: DeviceState,
  reason: words.MembershipChange,
  { email, role, address }: { email: string; role: MemberRole | null; address: string | null },
  nowMs: number,
): DeviceState {
  return append(state, { reason, email, role, time: nowMs, address });
}

function append(state: DeviceState, entry: JournalEntry): DeviceState {
  const number = state.ownership.entries + 1;
  const noted = { ...state, ownership: { ...state.ownership, entries: number } };
  return appendHistory(noted, { kind: 'journal', number, entry });
}
