// The Worker fails, or is given what it can never take.
import { workerSideScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(workerSideScenarios);
