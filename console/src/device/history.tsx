// What happened to a device, and what it reported: all that is looked back at.
import { PositionChart } from '../parts/position-chart.tsx';
import { Timeline } from '../parts/timeline.tsx';
import { ago, clockTime } from '../state/clock.ts';
import type { DeviceView, Properties } from '../state/device.ts';
import { texts } from '../texts.ts';

const words = texts.device;

export function DeviceHistory({ view }: { view: DeviceView }) {
  return (
    <div class="columns">
      <section class="card" aria-label={words.timeline}>
        <h2>{words.timeline}</h2>
        <Timeline view={view} />
      </section>
      <section class="card" aria-label={words.history}>
        <h2>{words.history}</h2>
        {view.properties.value === null ? <p>{texts.loading}</p> : <Values properties={view.properties.value} />}
      </section>
    </div>
  );
}

function Values({ properties: { list, positionChanges } }: { properties: Properties }) {
  return (
    <>
      <PositionChart changes={positionChanges} />
      {list.length > 0 && <h3>{words.properties}</h3>}
      <dl class="facts">
        {list.map(({ name, value, time, savedAt }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {typeof value === 'string' ? value : JSON.stringify(value)}{' '}
              <small>
                {savedAt === undefined ? ago(Date.parse(time)) : words.savedAt(clockTime(Date.parse(savedAt)))}
              </small>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
