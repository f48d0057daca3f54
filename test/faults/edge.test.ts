// Devices at the edge: gateway, Worker, connections or answers fail.
import { edgeScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(edgeScenarios);
