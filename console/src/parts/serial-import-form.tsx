// Importing serial numbers: pasted or from a file, with progress and a result for each line. An import that failed on its
// way goes on from there.
import { useSignal } from '@preact/signals';
import { Action, Field, Form, TextArea } from './form.tsx';
import { readSerials, SerialImport, toCsv, type SerialResult } from '../state/serial-import.ts';
import { saveFile } from './save-file.ts';
import { codeSheet } from '../state/code-sheet.ts';
import { productsTexts } from '../texts/products.ts';

const words = productsTexts.serials;
/** So many lines are shown; the file has all of them. */
const shownLines = 200;

type Props = { productKey: string; onChange: () => Promise<void> };

export function SerialImportForm({ productKey, onChange }: Props) {
  const running = useSignal<SerialImport | null>(null);
  const work = running.value;
  const run = async (one: SerialImport): Promise<void> => {
    running.value = one;
    try {
      await one.run();
    } finally {
      if (one.sent.value > 0) await onChange();
    }
  };
  if (work !== null) {
    return (
      <>
        <Progress work={work} />
        <Continue key={String(work.isDone)} work={work} run={run} />
        <Results work={work} />
        {work.isDone && <PrintCodes productKey={productKey} work={work} />}
        {work.isDone && (
          <button type="button" onClick={() => (running.value = null)}>
            {words.another}
          </button>
        )}
      </>
    );
  }
  return (
    <Form
      submit={words.start}
      onSubmit={async ({ text = '' }, form) => {
        const file = form.get('file');
        const given = file instanceof File && file.size > 0 ? await file.text() : text;
        running.value = new SerialImport(productKey, readSerials(given));
      }}
    >
      <TextArea label={words.paste} hint={words.pasteHint} name="text" />
      <Field label={words.file} name="file" type="file" accept=".csv,.txt,.json,text/csv,text/plain,application/json" />
    </Form>
  );
}

/** Starts by itself; a button where it stopped. */
function Continue({ work, run }: { work: SerialImport; run: (work: SerialImport) => Promise<void> }) {
  if (work.isDone) return null;
  return (
    <Action
      label={work.sent.value === 0 ? words.send(work.total) : words.goOn(work.sent.value + 1)}
      kind="primary"
      onPress={() => run(work)}
    />
  );
}

/** Of devices that have these codes now. */
function PrintCodes({ productKey, work }: { productKey: string; work: SerialImport }) {
  const codes = work.results.value.flatMap(({ deviceSN, claimCode, result }) =>
    claimCode !== undefined && (result === 'registered' || result === 'code_set')
      ? [{ productKey, deviceSN, claimCode }]
      : [],
  );
  if (codes.length === 0) return null;
  return (
    <>
      <p class="hint">{words.printHint}</p>
      <button type="button" class="primary" onClick={() => (codeSheet.value = codes)}>
        {words.printCodes(codes.length)}
      </button>
    </>
  );
}

function Progress({ work }: { work: SerialImport }) {
  const sent = work.sent.value;
  return (
    <>
      <progress max={work.total} value={sent} aria-label={words.import} />
      <p role="status">{work.isDone ? words.done(work.total) : words.progress(sent, work.total)}</p>
    </>
  );
}

function Results({ work }: { work: SerialImport }) {
  const results = work.results.value;
  if (results.length === 0) return null;
  const counted = new Map<SerialResult, number>();
  for (const { result } of results) counted.set(result, (counted.get(result) ?? 0) + 1);
  const others = results.filter(({ result }) => result !== 'registered');
  return (
    <>
      <dl class="figures">
        {[...counted].map(([result, count]) => (
          <div key={result}>
            <dt>{words.results[result]}</dt>
            <dd>{count.toLocaleString('en')}</dd>
          </div>
        ))}
      </dl>
      {others.length > 0 && (
        <ol class="lines" tabIndex={0} aria-label={words.notRegistered}>
          {others.slice(0, shownLines).map(({ line, deviceSN, result }) => (
            <li key={line}>
              <span class="hint">{words.line(line)}</span> <code>{deviceSN}</code> {words.results[result]}
            </li>
          ))}
          {others.length > shownLines && <li class="hint">{words.andMore(others.length - shownLines)}</li>}
        </ol>
      )}
      <button type="button" onClick={() => saveFile(new Blob([toCsv(results)], { type: 'text/csv' }), 'serials.csv')}>
        {words.saveResults}
      </button>
    </>
  );
}
