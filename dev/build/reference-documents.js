// The documents of the reference, for build-reference.js.
import { createApp } from '../../src/app.ts';
import { describeMessaging } from '../reference/asyncapi.ts';
import { brokerPlaceholders, contractVersion } from '../../src/routes/reference.ts';
import { describeRoutes } from '../reference/openapi.ts';

export const documents = {
  openapi: describeRoutes(createApp(), contractVersion),
  asyncapi: describeMessaging(contractVersion, brokerPlaceholders),
};
