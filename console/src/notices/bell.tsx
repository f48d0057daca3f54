// The way to the notices in the header, with how many are unread.
import { hrefOf } from '../router.ts';
import { texts } from '../texts.ts';
import { unread } from './inbox.ts';

export function Bell({ isOpen }: { isOpen: boolean }) {
  const { title, unread: unreadText } = texts.notices;
  const text = unread.value === 0 ? '' : unreadText(unread.value);
  return (
    <>
      <a
        class="bell"
        href={hrefOf({ screen: 'notices' })}
        title={title}
        aria-label={[title, text].filter(Boolean).join(', ')}
        aria-current={isOpen ? 'page' : undefined}
      >
        <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
          <path d="M5 17h14l-2-3v-4a5 5 0 0 0-10 0v4zM10 20h4M12 3v2" />
        </svg>
        {text !== '' && <b>{unread.value}</b>}
      </a>
      <span class="hidden" role="status">
        {text}
      </span>
    </>
  );
}
