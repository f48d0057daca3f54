// A part of the page that is loaded when it is first shown. Where that fails, because the connection is gone or the service
// has a newer page, it says so and offers a way out.
import type { ComponentType } from 'preact';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { texts } from '../texts.ts';
import { Problem } from './form.tsx';

export function later<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  return function Later(props: Props) {
    const isReady = useSignal(loaded !== null);
    const hasFailed = useSignal(false);
    useEffect(() => {
      load().then(
        (component) => {
          loaded = component;
          isReady.value = true;
        },
        (error: unknown) => {
          console.info(texts.notLoaded, error);
          hasFailed.value = true;
        },
      );
    }, []);
    if (isReady.value && loaded !== null) {
      const Loaded = loaded;
      return <Loaded {...props} />;
    }
    if (!hasFailed.value) return <p>{texts.loading}</p>;
    return (
      <div class="notice">
        <Problem text={texts.notLoaded} />
        <button type="button" onClick={() => location.reload()}>
          {texts.reload}
        </button>
      </div>
    );
  };
}
