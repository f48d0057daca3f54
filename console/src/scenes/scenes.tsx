// All scenes: what each of them does, and the button that runs it.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Dialog } from '../parts/dialog.tsx';
import { Action } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { useRead } from '../parts/read.ts';
import { goTo, hrefOf } from '../router.ts';
import { nameOf, readDevices } from '../state/device-names.ts';
import { session } from '../state/session.ts';
import { scenesTexts as words } from '../texts/groups.ts';
import { commandWords } from '../times/sentence.ts';
import { SceneForm, type SceneRecord } from './scene-form.tsx';

export function Scenes() {
  const isOpen = useSignal(false);
  // For the names.
  useRead(readDevices);
  const list = usePagedList(
    (query) => dataOf(session().api.scenes.$get({ query })),
    ({ sceneId }) => sceneId,
  );
  return (
    <>
      <Paged
        list={list}
        kind="cards"
        empty={
          <section class="empty">
            <h2>{words.none}</h2>
            <p>{words.noneHint}</p>
          </section>
        }
      >
        {(scene) => (
          <li key={scene.sceneId} class="card">
            <h2>
              <a href={hrefOf({ screen: 'scenes', id: scene.sceneId })}>{scene.name}</a>
            </h2>
            <SceneItems scene={scene} />
            <RunButton scene={scene} />
          </li>
        )}
      </Paged>
      <p class="actions">
        <button type="button" class="primary" onClick={() => (isOpen.value = true)}>
          {words.make}
        </button>
      </p>
      {isOpen.value && (
        <Dialog title={words.make} onClose={() => (isOpen.value = false)}>
          <SceneForm
            scene={null}
            onSave={async (json) => {
              const { sceneId } = await dataOf(session().api.scenes.$post({ json }));
              goTo({ screen: 'scenes', id: sceneId });
            }}
          />
        </Dialog>
      )}
    </>
  );
}

export function SceneItems({ scene: { items, putBack, deadlineSeconds } }: { scene: SceneRecord }) {
  return (
    <>
      <ul class="plain">
        {items.map(({ deviceId, command }) => (
          <li key={deviceId}>{words.item(nameOf(deviceId), commandWords(command))}</li>
        ))}
      </ul>
      <p class="hint">
        {words.deadline(deadlineSeconds)} {putBack && words.putsBack}
      </p>
    </>
  );
}

export function RunButton({ scene: { sceneId, name } }: { scene: SceneRecord }) {
  return (
    <Action
      label={words.run}
      name={words.runOf(name)}
      kind="primary"
      onPress={async () => {
        const run = session().api.scenes[':sceneId'].run.$post({ param: { sceneId }, json: {} });
        goTo({ screen: 'scenes', id: sceneId, bulkId: (await dataOf(run)).bulkId });
      }}
    />
  );
}
