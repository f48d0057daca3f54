// The form of a witness: a reading of the device, a reading of another device, or a check-in.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { Choice, Field, Form, Problem, Select } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { readDevices } from '../state/device-names.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { witnessTexts } from '../texts/witness.ts';

const words = witnessTexts.form;
export type Witness = Data<Client['devices'][':deviceId']['witness']['$get']>;
export type WitnessBody = Parameters<Client['devices'][':deviceId']['witness']['$put']>[0]['json'];
type Kind = keyof typeof words.kinds;
type Operator = keyof typeof witnessTexts.operators;

type Props = {
  deviceId: string;
  /** null: a new one. */
  witness: Witness | null;
  onSave: (body: WitnessBody) => Promise<void>;
};

export function WitnessForm({ deviceId, witness, onSave }: Props) {
  const start = fieldsOf(witness);
  const kind = useSignal<Kind>(start.kind);
  return (
    <Form
      submit={words.save}
      onSubmit={({ within, expect, then, ...reading }) =>
        onSave({
          by: byOf(kind.value, reading),
          expect: expect as WitnessBody['expect'],
          withinSeconds: Number(within),
          then: then as WitnessBody['then'],
        })
      }
    >
      <Choice legend={words.kind} labels={words.kinds} chosen={kind} />
      {kind.value === 'own' && <ReadingFields deviceId={deviceId} start={start} mayChange />}
      {kind.value === 'other' && <OtherDevice except={deviceId} start={start} />}
      <div class="pair">
        <Select
          label={words.expect}
          name="expect"
          value={witness?.expect ?? 'on'}
          options={Object.entries(words.expects)}
        />
        <Field
          label={words.within}
          name="within"
          type="number"
          min={1}
          max={300}
          value={String(witness?.withinSeconds ?? 30)}
          required
        />
      </div>
      <Select label={words.then} name="then" value={witness?.then ?? 'nothing'} options={Object.entries(words.thens)} />
    </Form>
  );
}

type Start = ReturnType<typeof fieldsOf>;

function OtherDevice({ except, start }: { except: string; start: Start }) {
  const { value, problem } = useRead(readDevices);
  const chosen = useSignal(start.deviceId);
  const others = value.value?.filter(({ deviceId }) => deviceId !== except) ?? [];
  const [first] = others;
  if (value.value === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  if (first === undefined) return <p class="notice">{words.noOther}</p>;
  const deviceId = chosen.value === '' ? first.deviceId : chosen.value;
  return (
    <>
      <Select
        label={words.device}
        name="deviceId"
        value={deviceId}
        options={others.map((device) => [device.deviceId, device.name])}
        onChange={(id) => (chosen.value = id)}
      />
      <ReadingFields key={deviceId} deviceId={deviceId} start={start} />
    </>
  );
}

/** @param mayChange it may be enough that the reading changes */
function ReadingFields({
  deviceId,
  start,
  mayChange = false,
}: {
  deviceId: string;
  start: Start;
  mayChange?: boolean;
}) {
  const { value, problem } = useRead(() =>
    dataOf(session().api.devices[':deviceId'].properties.$get({ param: { deviceId } })),
  );
  const property = useSignal(start.property);
  const operator = useSignal(mayChange || start.operator !== '' ? start.operator : '>');
  if (value.value === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  const readings = new Map(value.value.list.map((reading) => [reading.name, reading.value]));
  const names = [...new Set([...(start.property === '' ? [] : [start.property]), ...readings.keys()])];
  const chosen = property.value === '' ? (names[0] ?? '') : property.value;
  const now = readings.get(chosen);
  return (
    <>
      {names.length === 0 ? (
        <Field label={words.property} hint={words.noProperties} name="property" required maxLength={64} />
      ) : (
        <Select
          label={words.property}
          name="property"
          value={chosen}
          options={names.map((name) => [name, name])}
          {...(now !== undefined && { hint: words.now(typeof now === 'object' ? JSON.stringify(now) : String(now)) })}
          onChange={(name) => (property.value = name)}
        />
      )}
      <div class="pair">
        <Select
          label={words.operator}
          name="operator"
          value={operator.value}
          options={[
            ...(mayChange ? [['', witnessTexts.changes] as const] : []),
            ...Object.entries(witnessTexts.operators),
          ]}
          onChange={(name) => (operator.value = name as Operator | '')}
        />
        {operator.value !== '' && (
          <Field label={words.value} name="value" value={start.value} required maxLength={100} />
        )}
      </div>
    </>
  );
}

function fieldsOf(witness: Witness | null): Record<'deviceId' | 'property' | 'value', string> & {
  kind: Kind;
  operator: Operator | '';
} {
  const none = { kind: 'own', deviceId: '', property: '', operator: '', value: '' } as const;
  if (witness === null) return none;
  const { by } = witness;
  if ('checkIn' in by) return { ...none, kind: 'check_in' };
  if (!('operator' in by)) return { ...none, property: by.property };
  const { deviceId = '', property, operator, value } = by;
  return { kind: deviceId === '' ? 'own' : 'other', deviceId, property, operator, value: String(value) };
}

/** @throws InputError */
function byOf(kind: Kind, fields: Partial<Record<string, string>>): WitnessBody['by'] {
  const { deviceId, property = '', operator = '', value = '' } = fields;
  if (kind === 'check_in') return { checkIn: true };
  if (kind === 'other' && deviceId === undefined) throw new InputError(words.noOther);
  if (operator === '') return { property };
  const condition = { property, operator: operator as Operator, value: typed(value.trim()) };
  return deviceId === undefined ? condition : { deviceId, ...condition };
}

/** As a device reports it. */
function typed(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}
