// Several active bridges.
import { sharedUplinkScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(sharedUplinkScenarios);
