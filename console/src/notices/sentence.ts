// A notice as a sentence.
import { explainReason } from '../errors.ts';
import { texts } from '../texts.ts';
import { accountTexts } from '../texts/account.ts';
import { noticesTexts, webhooksTexts } from '../texts/telling.ts';
import { timesTexts } from '../texts/times.ts';
import { momentOf } from '../times/sentence.ts';
import type { Notice } from './inbox.ts';

type Detail = (name: string) => string;
const words = noticesTexts.causes;

const sentences: Record<Notice['cause'], (detail: Detail) => string> = {
  offline: (detail) => words.offline(momentOf(detail('since'))),
  lease_not_off: (detail) => words.lease_not_off(momentOf(detail('since'))),
  run_failed: (detail) => {
    const outcome = explainReason(detail('outcome'), timesTexts.outcomes);
    const reason = explainReason(detail('reason'), timesTexts.reasons);
    return words.run_failed(detail('name'), reason === '' ? outcome : timesTexts.outcome(outcome, reason));
  },
  moved_by_hand: (detail) => words.moved_by_hand(explainReason(detail('position'), texts.position)),
  not_witnessed: (detail) => words.not_witnessed(detail('expected')),
  security: (detail) =>
    words.security(explainReason(detail('event'), accountTexts.security.kinds), detail('clientAddress')),
  webhook_disabled: (detail) =>
    words.webhook_disabled(detail('url'), explainReason(detail('because'), webhooksTexts.ends)),
};

/** A newer service may tell fewer members, or others. */
export function sentenceOf({ cause, detail }: Pick<Notice, 'cause' | 'detail'>): string {
  return sentences[cause]((name) => String(detail[name] ?? ''));
}
