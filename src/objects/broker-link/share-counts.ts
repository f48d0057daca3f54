// What a bridge is told with its role: how many links it opens, how many shares the uplink has, and for which number of shares
// the sessions at the broker are, which the link of share 0 keeps.
import type { Config } from '../../config.ts';

/** Which number of shares the sessions at the broker are for. */
type StoredShares = { shares: number; changedAtMs: number };

const sharesKey = 'shares';
/** Far longer than a bridge needs to begin with its share after a change. */
const overlapForMs = 600_000;

export class ShareCounts {
  readonly #storage: SyncKvStorage;
  readonly #commandLinks: number;
  readonly shares: number;
  /** undefined: of a command link. */
  readonly share: number | undefined;

  constructor(storage: SyncKvStorage, { limits, bridgeShares }: Config, share: number | undefined) {
    this.#storage = storage;
    this.#commandLinks = limits.commandLinks;
    this.shares = bridgeShares;
    this.share = share;
  }

  read() {
    const { shares } = this;
    const counts = { commandLinks: this.#commandLinks, ...(shares > 1 && { shares }) };
    if (this.share !== 0) return counts;
    const stored = this.#storage.get<StoredShares>(sharesKey) ?? { shares: 1, changedAtMs: 0 };
    if (stored.shares !== shares) return { ...counts, formerShares: stored.shares };
    const changedMsAgo = Date.now() - stored.changedAtMs;
    return changedMsAgo < overlapForMs ? { ...counts, changedMsAgo } : counts;
  }

  /** The sessions are those of this number now; false where it is not the present one. */
  noteChanged(shares: number): boolean {
    if (this.share !== 0 || shares !== this.shares) return false;
    this.#storage.put(sharesKey, { shares, changedAtMs: Date.now() } satisfies StoredShares);
    return true;
  }
}
