// Everything runs as `npm start` runs it.
import { localScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(localScenarios);
