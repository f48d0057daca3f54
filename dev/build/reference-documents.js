// The documents of the reference, for reference.js.
import { version } from '../../package.json';
import { createApp } from '../../src/app.ts';
import { describeMessaging } from '../reference/asyncapi.ts';
import { brokerPlaceholders } from '../../src/routes/reference.ts';
import { describeRoutes } from '../reference/openapi.ts';

export const documents = {
  openapi: describeRoutes(createApp(), version),
  asyncapi: describeMessaging(version, brokerPlaceholders),
};
