// Devices as rows of a table, to compare many.
import type { Signal } from '@preact/signals';
import { kindOf } from './board.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { Window } from '../parts/window.tsx';
import { hrefOf } from '../router.ts';
import { ago } from '../state/clock.ts';
import { reportedOf, type DeviceList, type Row } from '../state/device-list.ts';
import { texts } from '../texts.ts';

const words = texts.devices;

export function Table({ list }: { list: DeviceList }) {
  const rows = list.rows.value;
  return (
    <div role="table" aria-label={words.title} aria-rowcount={(list.total.value ?? 0) + 1} class="devices">
      <div role="rowgroup">
        <div role="row" aria-rowindex={1} class="row head">
          <span role="columnheader">{words.columnName}</span>
          <span role="columnheader">{words.columnStatus}</span>
          <span role="columnheader">{words.columnPosition}</span>
          <span role="columnheader">{words.columnSince}</span>
          <span role="columnheader">{words.columnReport}</span>
        </div>
      </div>
      <Window
        kind="table"
        count={rows.length}
        item={(index) => <Cells row={rows[index] as Signal<Row>} />}
        onView={(from, to) => list.view(from, to)}
      />
    </div>
  );
}

function Cells({ row }: { row: Signal<Row> }) {
  const { device, status, sinceMs, reportedAtMs } = row.value;
  return (
    <>
      <span role="cell">
        <a href={hrefOf({ screen: 'device', deviceId: device.deviceId })}>{device.name}</a>
        <small>{kindOf(device)}</small>
      </span>
      <span role="cell">
        <Status status={status} />
      </span>
      <span role="cell">
        <PositionText position={reportedOf(row.value)} />
      </span>
      <span role="cell">{sinceMs === null ? words.never : ago(sinceMs)}</span>
      <span role="cell">{reportedAtMs === null ? '–' : ago(reportedAtMs)}</span>
    </>
  );
}
