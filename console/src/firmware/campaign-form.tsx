// The form of a new campaign: which version, its waves, when it pauses itself, and when it may offer.
import type { Client } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { DevicePicker } from '../groups/picker.tsx';
import { Choice, Field, Form, Select } from '../parts/form.tsx';
import { firmwareTexts } from '../texts/firmware.ts';

const words = firmwareTexts.form;
type CampaignBody = Parameters<Client['products'][':productKey']['campaigns']['$post']>[0]['json'];
const mostNamed = 100;

type Props = { productKey: string; versions: readonly string[]; onSave: (body: CampaignBody) => Promise<void> };

export function CampaignForm({ productKey, versions, onSave }: Props) {
  const kind = useSignal<keyof typeof words.kinds>('percent');
  const chosen = useSignal<readonly string[]>([]);
  return (
    <Form
      submit={words.submit}
      onSubmit={(values) => onSave(bodyOf(values, kind.value === 'named' ? chosen.value : null))}
    >
      <Select
        label={words.version}
        name="version"
        value={versions[0] ?? ''}
        options={versions.map((version) => [version, version])}
      />
      <Choice legend={words.first} labels={words.kinds} chosen={kind} />
      {kind.value === 'named' && (
        <DevicePicker
          legend={words.pick}
          chosen={chosen}
          isOffered={({ product }) => product.productKey === productKey}
        />
      )}
      <Field label={words.rest} hint={words.restHint} name="rest" value="10, 100" />
      <div class="pair">
        <Field label={words.failed} hint={words.failedHint} name="failedPercent" value="5" {...number(100)} />
        <Field label={words.away} hint={words.awayHint} name="offlinePercent" value="10" {...number(100)} />
      </div>
      <Field label={words.wait} name="wait" value="10" {...number(10_080)} />
      <details class="more">
        <summary>{words.when}</summary>
        <div class="pair">
          <Field label={words.windowBegin} name="begin" type="time" />
          <Field label={words.windowEnd} name="end" type="time" />
        </div>
        <div class="pair">
          <Field label={words.from} name="from" type="datetime-local" />
          <Field label={words.to} name="to" type="datetime-local" />
        </div>
      </details>
    </Form>
  );
}

function number(max: number) {
  return { type: 'number', min: 0, max, required: true } as const;
}

/** @param devices of the first wave; null: 1 % of all. @throws InputError */
function bodyOf(values: Record<string, string>, devices: readonly string[] | null): CampaignBody {
  const { version = '', rest = '', begin = '', end = '', from = '', to = '' } = values;
  if (devices !== null && (devices.length === 0 || devices.length > mostNamed)) throw new InputError(words.nonePicked);
  const percents = [...(devices === null ? [1] : []), ...rest.split(',').flatMap((text) => text.trim() || [])].map(
    Number,
  );
  const grows = percents.every((one, index) => one > (percents[index - 1] ?? 0) && one <= 100);
  if (!grows) throw new InputError(words.notGrowing);
  if ((begin === '') !== (end === '')) throw new InputError(words.windowHalf);
  return {
    version,
    waves: [...(devices === null ? [] : [{ devices: [...devices] }]), ...percents.map((percent) => ({ percent }))],
    stopAt: { failedPercent: Number(values['failedPercent']), offlinePercent: Number(values['offlinePercent']) },
    waitSeconds: Number(values['wait']) * 60,
    ...(begin !== '' && { window: { begin, end } }),
    ...(from !== '' && { from: new Date(from).toISOString() }),
    ...(to !== '' && { to: new Date(to).toISOString() }),
  };
}
