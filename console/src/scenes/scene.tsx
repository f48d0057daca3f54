// One scene: run, and whether the run was complete, who is missing, and who was put back.
import { dataOf } from '@latchwork/client';
import { useSignal, type Signal } from '@preact/signals';
import type { Run } from '../groups/run-view.ts';
import { RunPart } from '../groups/run.tsx';
import { AskFirst, Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { Title } from '../parts/title.tsx';
import { goTo } from '../router.ts';
import { nameOf, readDevices } from '../state/device-names.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { scenesTexts as words } from '../texts/groups.ts';
import { SceneForm, type SceneRecord } from './scene-form.tsx';
import { RunButton, SceneItems } from './scenes.tsx';

export function Scene({ sceneId, bulkId }: { sceneId: string; bulkId: string | undefined }) {
  const param = { sceneId };
  // For the names.
  useRead(readDevices);
  const { value, problem } = useRead(() => dataOf(session().api.scenes[':sceneId'].$get({ param })), words.explain);
  const scene = value.value;
  if (scene === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  return (
    <>
      <div class="bar">
        <Title>{scene.name}</Title>
        <Management scene={scene} shown={value} />
      </div>
      <section class="card single" aria-label={words.items}>
        <h2>{words.items}</h2>
        <SceneItems scene={scene} />
        <RunButton scene={scene} />
      </section>
      {bulkId !== undefined && (
        <RunPart bulkId={bulkId} title={words.lastRun}>
          {(run) => <Result run={run} seconds={scene.deadlineSeconds} />}
        </RunPart>
      )}
    </>
  );
}

function Result({ run: { scene }, seconds }: { run: Run; seconds: number }) {
  if (scene === null) return null;
  const { isComplete, missing } = scene;
  if (isComplete === null) return <p class="notice">{words.under}</p>;
  return (
    <p class={`notice ${isComplete ? 'good' : 'bad'}`} role="status">
      {isComplete ? words.complete : words.incomplete(missing.map(nameOf).join(', '), seconds)}
    </p>
  );
}

function Management({ scene, shown }: { scene: SceneRecord; shown: Signal<SceneRecord | null> }) {
  const isOpen = useSignal(false);
  const api = session().api.scenes[':sceneId'];
  const param = { sceneId: scene.sceneId };
  return (
    <div class="actions">
      <button type="button" onClick={() => (isOpen.value = true)}>
        {words.edit}
      </button>
      <AskFirst
        label={words.remove}
        kind="danger"
        warning={words.removeWarning(scene.name)}
        confirm={words.remove}
        onConfirm={async () => {
          await dataOf(api.$delete({ param }));
          goTo({ screen: 'scenes' });
        }}
      />
      {isOpen.value && (
        <Dialog title={words.edit} onClose={() => (isOpen.value = false)}>
          <SceneForm
            scene={scene}
            onSave={async (json) => {
              shown.value = await dataOf(api.$patch({ param, json }));
              isOpen.value = false;
            }}
          />
        </Dialog>
      )}
    </div>
  );
}
