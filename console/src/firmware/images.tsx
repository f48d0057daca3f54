// What was signed for a product: each version with its image, and the form that adds one. An upload that did not come to its end is done
// again with the same files.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { AskFirst } from '../parts/dialog.tsx';
import { Field, Form } from '../parts/form.tsx';
import { clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { firmwareTexts, updateTexts, type Firmware } from '../texts/firmware.ts';

const words = firmwareTexts.images;
type Props = { productKey: string; images: readonly Firmware[]; onChange: () => void };

export function Images({ productKey, images, onChange }: Props) {
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      {images.length === 0 && <p>{words.none}</p>}
      <ul class="plain">
        {images.map((firmware) => (
          <Row key={firmware.version} {...{ productKey, firmware, onChange }} />
        ))}
      </ul>
      <AddForm {...{ productKey, images, onChange }} />
    </section>
  );
}

type RowProps = { productKey: string; firmware: Firmware; onChange: () => void };

function Row({ productKey, firmware, onChange }: RowProps) {
  const { version, manifest, keyId, storedAt } = firmware;
  const { size, minimumVersion, security, notes = '' } = manifest;
  const facts = [
    words.kibibytes(size),
    words.signedBy(keyId),
    minimumVersion === undefined ? [] : words.minimum(minimumVersion),
    security === true ? updateTexts.security : [],
    storedAt === null ? [] : words.stored(clockTime(Date.parse(storedAt))),
  ].flat();
  return (
    <li class="item">
      <div>
        <strong>{version}</strong> {notes}
        <p class="hint">{facts.join(' · ')}</p>
        {storedAt === null && <p class="problem">{words.notStored}</p>}
      </div>
      <AskFirst
        label={words.remove}
        name={words.removeOf(version)}
        kind="danger"
        warning={words.removeWarning}
        confirm={words.remove}
        onConfirm={async () => {
          const api = session().api.products[':productKey'].firmware[':version'];
          await dataOf(api.$delete({ param: { productKey, version } }));
          onChange();
        }}
      />
    </li>
  );
}

function AddForm({ productKey, images, onChange }: Props) {
  const api = session().api.products[':productKey'].firmware;
  const progress = useSignal('');
  const add = async (image: File, json: ReturnType<typeof readSigned>): Promise<void> => {
    const { version, size } = json.signed;
    if (size !== image.size) throw new InputError(words.wrongSize);
    progress.value = words.uploading(version, words.kibibytes(size));
    try {
      const isThere = images.some((other) => other.version === version && other.storedAt === null);
      const { manifest, signature } = json;
      if (!isThere) await dataOf(api.$post({ param: { productKey }, json: { manifest, signature } }));
      await dataOf(api[':version'].image.$put({ param: { productKey, version } }, { init: { body: image } }));
    } finally {
      progress.value = '';
      onChange();
    }
  };
  return (
    <Form
      submit={words.add}
      done={words.added}
      isEmptied
      onSubmit={async (_, form) => {
        const [image, manifest] = [form.get('image'), form.get('manifest')];
        if (image instanceof File && manifest instanceof File) await add(image, readSigned(await manifest.text()));
      }}
    >
      <Field label={words.image} name="image" type="file" required />
      <Field
        {...{ label: words.manifest, hint: words.manifestHint, name: 'manifest', type: 'file', required: true }}
        accept=".json"
      />
      <div role="status">{progress.value !== '' && <p class="waiting">{progress.value}</p>}</div>
    </Form>
  );
}

/** What `latchwork-sign` wrote. The service judges it. @throws InputError */
function readSigned(text: string) {
  try {
    const { manifest, signature } = JSON.parse(text) as { manifest: string; signature: string };
    const signed = JSON.parse(manifest) as { version: string; size: number };
    return { manifest, signature, signed };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) throw new InputError(words.notJson);
    throw error;
  }
}
