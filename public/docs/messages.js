// Shows the AsyncAPI document of this server: channels, their messages with members and examples, and the provisioning
// channel. Depends on AsyncAPI alone, not on particular messages.

const main = document.getElementById('reference');
try {
  const response = await fetch('/api/v1/asyncapi.json');
  main.append(...renderDocument(await response.json()));
} catch (error) {
  main.append(element('p', { class: 'problem' }, `The document could not be shown: ${error}`));
}
// The anchor named in the address did not exist while the page loaded.
if (location.hash !== '') document.getElementById(location.hash.slice(1))?.scrollIntoView();

function renderDocument(api) {
  return [
    element('h1', {}, api.info.title),
    element('p', {}, ...withCode(api.info.description)),
    element('p', { class: 'version' }, `Contract version ${api.info.version}`),
    renderContents(api),
    element('h2', { id: 'servers' }, 'Servers'),
    renderServers(api),
    ...Object.entries(api.channels).flatMap(([name, channel]) => renderChannel(api, name, channel)),
    ...renderProvisioning(api['x-provisioning']),
  ];
}

function renderContents(api) {
  const link = (id, text) => element('li', {}, element('a', { href: `#${id}` }, text));
  return element(
    'ul',
    { class: 'contents' },
    link('servers', 'Servers'),
    ...Object.entries(api.channels).map(([name, channel]) => link(name, channel.title)),
    link('provisioning', 'Provisioning'),
  );
}

function renderServers(api) {
  const rows = Object.entries(api.servers).map(([name, server]) => {
    const variables = Object.entries(server.variables ?? {});
    const address = variables.reduce((text, [key, { default: value }]) => text.replace(`{${key}}`, value), server.host);
    const credentials = (server.security ?? []).map((reference) => lookUp(api, reference).description);
    return [code(name), server.protocol, code(address), [server.description ?? '', ...credentials].join(' ')];
  });
  return table(['Server', 'Protocol', 'Address', ''], rows);
}

function renderChannel(api, name, channel) {
  const operations = Object.values(api.operations).filter(({ channel: { $ref } }) => $ref === `#/channels/${name}`);
  return [
    element('h2', { id: name }, channel.title),
    element('p', {}, code(channel.address)),
    element('p', {}, ...withCode(channel.description ?? '')),
    renderParameters(channel.parameters ?? {}),
    ...Object.keys(channel.messages).map((message) =>
      renderMessage(
        lookUp(api, channel.messages[message]),
        `${name}-${message}`,
        directionOf(`#/channels/${name}/messages/${message}`, operations, channel['x-parties']),
      ),
    ),
  ];
}

function renderParameters(parameters) {
  const rows = Object.entries(parameters).map(([name, { description, examples }]) => [
    code(name),
    description,
    code(examples?.[0] ?? ''),
  ]);
  return rows.length === 0 ? '' : table(['Part of the topic', '', 'For example'], rows);
}

/** Who sends it: operations are named from the side of the first party. */
function directionOf(reference, operations, [self, peer]) {
  const names = (messages) => messages.some(({ $ref }) => $ref === reference);
  const found = operations.flatMap(({ action, messages, reply }) => {
    if (names(messages)) return action === 'send' ? `${self} → ${peer}` : `${peer} → ${self}`;
    return reply !== undefined && names(reply.messages) ? `reply, ${self} → ${peer}` : [];
  });
  return [...new Set(found)].join(', ');
}

function renderMessage(message, id, direction) {
  return element(
    'section',
    { class: 'message', id },
    element('h3', {}, message.name, element('span', { class: 'direction' }, direction)),
    element('p', {}, ...withCode(message.summary)),
    renderMembers(message.payload),
    ...message.examples.map(({ payload }) => element('pre', {}, JSON.stringify(payload, null, 2))),
  );
}

function renderMembers(schema) {
  const rows = listMembers(schema, '');
  return rows.length === 0 ? '' : table(['Member', 'Type', 'Needed', ''], rows);
}

/** One row a member, those of nested objects below the object's own; alternatives one after the other. */
function listMembers(schema, prefix) {
  const forms = schema.anyOf ?? schema.oneOf;
  if (forms !== undefined) return forms.flatMap((form) => listMembers(form, prefix));
  const members = Object.entries(schema.properties ?? {});
  const title = schema.title === undefined ? '' : schema.title;
  return members.flatMap(([name, member]) => [
    [
      code(prefix + name),
      typeOf(member),
      (schema.required ?? []).includes(name) ? 'yes' : 'no',
      [title, member.description ?? ''].filter((text) => text !== '').join(': '),
    ],
    ...listMembers(member, `${prefix}${name}.`),
  ]);
}

function typeOf(schema) {
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.enum !== undefined)
    return element(
      'span',
      {},
      ...interleave(
        schema.enum.map((value) => code(JSON.stringify(value))),
        ' or ',
      ),
    );
  const forms = schema.anyOf ?? schema.oneOf;
  if (forms !== undefined && schema.properties === undefined) {
    const types = [...new Set(forms.map((form) => form.type ?? 'object'))];
    return types.join(' or ');
  }
  const limits = [
    schema.minimum === undefined ? '' : `from ${schema.minimum}`,
    schema.maximum === undefined ? '' : `to ${schema.maximum}`,
    schema.minLength === undefined ? '' : `at least ${schema.minLength} characters`,
    schema.maxLength === undefined ? '' : `at most ${schema.maxLength} characters`,
  ].filter((text) => text !== '');
  return [schema.type ?? 'any', ...limits].join(', ');
}

function renderProvisioning(provisioning) {
  return [
    element('h2', { id: 'provisioning' }, 'Provisioning'),
    element('p', {}, 'GATT service ', code(provisioning.serviceUuid), ' of devices that advertise one of these names:'),
    table(
      ['Name begins with', 'Device'],
      provisioning.advertisedNamePrefixes.map(({ prefix, device }) => [code(prefix), device]),
    ),
    element('p', {}, 'What a notification means for the progress that a client shows:'),
    table(
      ['Status', 'Progress'],
      Object.entries(provisioning.progressByStatus).map(([status, percent]) => [
        code(status),
        percent === null ? 'none: provisioning failed' : `${percent} %`,
      ]),
    ),
    element(
      'p',
      {},
      'States of a client, in the order of the flow: ',
      ...interleave(
        provisioning.clientStates.map((state) => code(state)),
        ', ',
      ),
      '.',
    ),
  ];
}

function lookUp(api, { $ref }) {
  return $ref
    .replace(/^#\//, '')
    .split('/')
    .reduce((place, part) => place[part], api);
}

function table(headings, rows) {
  return element(
    'div',
    { class: 'table' },
    element(
      'table',
      {},
      element('thead', {}, element('tr', {}, ...headings.map((heading) => element('th', {}, heading)))),
      element(
        'tbody',
        {},
        ...rows.map((cells) =>
          element('tr', {}, ...cells.map((cell) => element('td', {}, ...[withCode(cell)].flat()))),
        ),
      ),
    ),
  );
}

/** Text between backticks is code; everything else stays text, never markup. */
function withCode(content) {
  if (typeof content !== 'string') return [content];
  return content.split('`').map((part, index) => (index % 2 === 1 ? code(part) : part));
}

function code(text) {
  return element('code', {}, text);
}

function interleave(items, separator) {
  return items.flatMap((item, index) => (index === 0 ? [item] : [separator, item]));
}

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
