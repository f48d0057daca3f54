// The types of the bundled Worker (build-worker.js): those of its source.
export * from '../../src/index.ts';
export { default } from '../../src/index.ts';
