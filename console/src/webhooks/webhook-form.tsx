// The form of a webhook, new or changed.
import type { Client } from '@latchwork/client';
import { InputError } from '../errors.ts';
import { Field, Form, TextArea } from '../parts/form.tsx';
import { ProductField } from '../screens/product-field.tsx';
import { webhooksTexts } from '../texts/telling.ts';
import type { Webhook } from './webhooks.tsx';

const words = webhooksTexts.form;
const types = Object.keys(words.typeNames) as Webhook['types'];
const atFirst: readonly string[] = ['device.online', 'device.offline'];
type WebhookBody = Parameters<Client['webhooks']['$post']>[0]['json'];

type Props = {
  /** null: a new one. */
  webhook: Webhook | null;
  onSave: (body: WebhookBody) => Promise<void>;
};

export function WebhookForm({ webhook, onSave }: Props) {
  const chosen = webhook?.types ?? atFirst;
  return (
    <Form
      submit={webhook === null ? webhooksTexts.make : words.save}
      {...(webhook !== null && { done: words.saved })}
      onSubmit={async ({ url = '', productKey = '', deviceIds = '' }, data) => {
        const wanted = types.filter((type) => data.has(type));
        if (wanted.length === 0) throw new InputError(words.noType);
        const ids = deviceIds.split(/[\s,]+/).filter((id) => id !== '');
        await onSave({
          url: url.trim(),
          types: wanted,
          productKey: productKey === '' ? null : productKey,
          deviceIds: ids.length === 0 ? null : ids,
        });
      }}
    >
      <Field
        label={words.url}
        hint={words.urlHint}
        name="url"
        type="url"
        value={webhook?.url ?? ''}
        required
        maxLength={2_000}
      />
      <fieldset class="group">
        <legend>{words.types}</legend>
        {types.map((type) => (
          <label key={type} class="check">
            <input type="checkbox" name={type} defaultChecked={chosen.includes(type)} />
            <span>
              <code>{type}</code> <small>{words.typeNames[type]}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <ProductField value={webhook?.productKey ?? ''} />
      <TextArea
        label={words.devices}
        hint={words.devicesHint}
        name="deviceIds"
        rows={2}
        value={webhook?.deviceIds?.join('\n') ?? ''}
      />
    </Form>
  );
}
