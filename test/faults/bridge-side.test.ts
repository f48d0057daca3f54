// Bridge, broker, disk or network fail.
import { bridgeSideScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(bridgeSideScenarios);
