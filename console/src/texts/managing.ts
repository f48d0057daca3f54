// Texts about what the owner of a device sets once in a while. Loaded with the settings of the device.
export const managingTexts = {
  manage: 'Manage',
  rename: 'Rename',
  name: 'Name',
  disable: 'Disable',
  disableHint: 'A disabled device cannot log in and takes no commands until it is enabled.',
  enable: 'Enable',
  credentials: 'New password',
  credentialsHint: 'The present password and session of the device end at once.',
  credentialsShown: 'The new password, shown this once:',
  remove: 'Delete',
  removeWarning: (name: string) =>
    `Delete ${name}? Its history, commands and credentials are gone for good. The device itself can activate again.`,
  removeConfirm: 'Delete for good',
  tags: 'Tags',
  tagsHint:
    'Up to 16, with commas between them. The list of devices is filtered by a tag, and a group may have all that have it.',
  saveTags: 'Save tags',
  tagsSaved: 'Saved.',
};
