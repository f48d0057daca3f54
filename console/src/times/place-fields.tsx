// Where the sun rises and sets: typed, or the place of the browser, to 0.1 degree.
import { useSignal } from '@preact/signals';
import { Field } from '../parts/form.tsx';
import { timesTexts } from '../texts/times.ts';

const words = timesTexts.form;
export type Place = { latitude: number; longitude: number };

/** @param onChange after the browser has told its place: no field has an event of it */
export function PlaceFields({ place, onChange }: { place: Place | null; onChange: () => void }) {
  const located = useSignal(place);
  const problem = useSignal('');
  const locate = (): void => {
    problem.value = '';
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => {
        located.value = { latitude: round(coords.latitude), longitude: round(coords.longitude) };
        // Once the fields show it.
        requestAnimationFrame(onChange);
      },
      () => (problem.value = words.notLocated),
      { maximumAge: 3_600_000, timeout: 20_000 },
    );
  };
  const { latitude, longitude } = located.value ?? {};
  return (
    <div class="place" key={JSON.stringify(located.value)}>
      <div class="pair">
        <Field {...degrees(90)} label={words.latitude} name="latitude" value={latitude?.toString() ?? ''} />
        <Field {...degrees(180)} label={words.longitude} name="longitude" value={longitude?.toString() ?? ''} />
      </div>
      <p class="hint">{words.placeHint}</p>
      <button type="button" onClick={locate}>
        {words.locate}
      </button>
      <p class="problem" role="alert">
        {problem}
      </p>
    </div>
  );
}

function degrees(max: number) {
  return { type: 'number', required: true, min: -max, max, step: 0.1 } as const;
}

function round(degree: number): number {
  return Math.round(degree * 10) / 10;
}
