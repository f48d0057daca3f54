// Labels for boxes, to print: a QR code for each device of an import, with its serial number and claim code. The codes are in
// this page alone: the service shows none again.
import qrcode from 'qrcode-generator';
import { Title } from '../parts/title.tsx';
import { addressOf } from '../state/device-code.ts';
import { codeSheet } from '../state/code-sheet.ts';
import { productsTexts } from '../texts/products.ts';

const words = productsTexts.codeSheet;
/** White around the squares, which readers need. */
const margin = 4;

export function CodeSheet() {
  const codes = codeSheet.value ?? [];
  return (
    <main id="content" class="sheet">
      <div class="bar">
        <Title>{words.title(codes.length)}</Title>
        <div class="actions">
          <button type="button" class="primary" onClick={() => print()}>
            {words.print}
          </button>
          <button type="button" onClick={() => (codeSheet.value = null)}>
            {words.close}
          </button>
        </div>
      </div>
      <p class="hint">{words.hint}</p>
      <ul class="labels">
        {codes.map((code) => (
          <li key={code.deviceSN}>
            <QrCode text={addressOf(code)} name={words.codeOf(code.deviceSN)} />
            <span>
              <strong>{code.deviceSN}</strong>
              <code>{code.claimCode}</code>
              <small>{code.productKey}</small>
            </span>
          </li>
        ))}
      </ul>
    </main>
  );
}

function QrCode({ text, name }: { text: string; name: string }) {
  const code = qrcode(0, 'M');
  code.addData(text);
  code.make();
  const size = code.getModuleCount();
  const squares = Array.from({ length: size * size }, (_, index) => [Math.floor(index / size), index % size] as const);
  const path = squares
    .filter(([row, column]) => code.isDark(row, column))
    .map(([row, column]) => `M${column + margin} ${row + margin}h1v1h-1z`)
    .join('');
  const side = size + 2 * margin;
  return (
    <svg role="img" aria-label={name} viewBox={`0 0 ${side} ${side}`} shape-rendering="crispEdges">
      <rect width={side} height={side} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
