// A server of one's own.
import { serverScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(serverScenarios);
