// The code on the box, typed or read by the camera: a device that has one is claimed only with it.
import type { Signal } from '@preact/signals';
import type { DeviceCode } from '../state/device-code.ts';
import { addingTexts } from '../texts/adding.ts';
import { CodeReader } from './code-reader.tsx';
import { Field, Form } from '../parts/form.tsx';

const words = addingTexts.add.code;

export function BoxCode({ code }: { code: Signal<DeviceCode | undefined> }) {
  const present = code.value;
  if (present !== undefined) {
    return (
      <section class="card" aria-label={words.title}>
        <h2>{words.title}</h2>
        <div class="bar">
          <p>{words.present(present.deviceSN)}</p>
          <button type="button" onClick={() => (code.value = undefined)}>
            {words.remove}
          </button>
        </div>
      </section>
    );
  }
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <CodeReader onRead={(read) => (code.value = read)} />
      <details>
        <summary>{words.byHand}</summary>
        <Form
          submit={words.use}
          onSubmit={({ productKey = '', deviceSN = '', claimCode = '' }) => {
            code.value = { productKey, deviceSN, claimCode };
            return Promise.resolve();
          }}
        >
          <Field label={words.productKey} name="productKey" required maxLength={64} autoComplete="off" />
          <Field label={words.deviceSN} name="deviceSN" required maxLength={64} autoComplete="off" />
          <Field label={words.claimCode} name="claimCode" required maxLength={64} autoComplete="off" />
        </Form>
      </details>
    </section>
  );
}
