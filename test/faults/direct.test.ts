// Directly connected devices: gateway, Worker, connections or answers fail.
import { directScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(directScenarios);
