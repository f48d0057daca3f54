// Due times and ends of leases come while the Worker or the device is away; events leave while receivers fail.
import { timeScenarios } from './scenarios.ts';
import { testScenarios } from './short-run.ts';

testScenarios(timeScenarios);
