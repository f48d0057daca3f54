// The place of groups and scenes: the board of either, or one of them with its last run.
import { Tabs } from '../parts/tabs.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { Scene } from '../scenes/scene.tsx';
import { Scenes } from '../scenes/scenes.tsx';
import { groupsTexts as words } from '../texts/groups.ts';
import { GroupBoard } from './group-board.tsx';
import { GroupScreen } from './group.tsx';

type Props = { screen: 'groups' | 'scenes'; id?: string; bulkId?: string };
const tabs = ['groups', 'scenes'] as const;

export function Collections({ screen, id, bulkId }: Props) {
  if (id !== undefined) {
    return (
      <main id="content">
        <p class="back">
          <a href={hrefOf({ screen })}>← {words.backTo[screen]}</a>
        </p>
        {screen === 'groups' ? <GroupScreen groupId={id} bulkId={bulkId} /> : <Scene sceneId={id} bulkId={bulkId} />}
      </main>
    );
  }
  return (
    <main id="content">
      <Title>{words.tabs[screen]}</Title>
      <Tabs
        label={words.parts}
        tabs={tabs.map((tab) => ({ tab, text: words.tabs[tab], href: hrefOf({ screen: tab }) }))}
        open={screen}
      >
        {screen === 'groups' ? <GroupBoard /> : <Scenes />}
      </Tabs>
    </main>
  );
}
