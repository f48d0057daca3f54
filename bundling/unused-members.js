// Takes out of a library's file the members that nothing names: methods of classes and of zod's schemas, which a bundler has to keep
// because they might be called by any name. Changes nothing of what is called.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('..', import.meta.url));

/** What calls zod's schemas besides zod. */
const callersOfSchemas = ['@hono/zod-openapi/dist/index.mjs', '@hono/zod-validator/dist/index.mjs'];

/** `.name` of anything, but not `z.name`, which is a function of its own. */
const named = /(?<!\bz\s*)\??\.(\w+)/g;

const namesIn = (text) => [...text.matchAll(named)].map(([, name]) => name);

/** zod/v4/classic/schemas.js without the methods of schemas that no source of the Worker calls. */
export function withoutUnusedSchemaMethods(path) {
  const text = readFileSync(path, 'utf8');
  const called = new Set([
    // A field may have the name of a method: only a call counts.
    ...sources().flatMap((source) => [...source.matchAll(/(?<!\bz\s*)\??\.(\w+)\(/g)].map(([, name]) => name)),
    ...callersOfSchemas.flatMap((name) => namesIn(readFileSync(join(root, 'node_modules', name), 'utf8'))),
  ]);
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  /** Each with what its own text calls. */
  const methods = [];
  const visit = (node) => {
    if (ts.isCallExpression(node) && node.expression.getText() === 'core.$constructor') {
      const table = node.arguments[2];
      const literal = table !== undefined && ts.isCallExpression(table) ? table.arguments[1] : table;
      for (const member of literal?.properties ?? []) if (isMethod(member)) methods.push(member);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  if (methods.length < 100) throw new Error(`${path} has its methods elsewhere`);
  let unused = methods;
  const isUsed = ({ name }) => called.has(name.text);
  const outside = cut(text, methods);
  for (const name of namesIn(outside)) called.add(name);
  for (;;) {
    const reached = unused.filter(isUsed);
    if (reached.length === 0) break;
    unused = unused.filter((member) => !reached.includes(member));
    for (const name of reached.flatMap((member) => namesIn(member.getText()))) called.add(name);
  }
  return cut(text, unused);
}

/** A file without these members of its classes. */
export function withoutMembers(path, names) {
  const text = readFileSync(path, 'utf8');
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  const members = [];
  const visit = (node) => {
    if (ts.isClassElement(node) && node.name !== undefined && names.includes(node.name.getText())) members.push(node);
    else ts.forEachChild(node, visit);
  };
  visit(file);
  for (const name of names) {
    if (!members.some((member) => member.name.getText() === name)) throw new Error(`${path} has no ${name}`);
  }
  return cut(text, members);
}

const isMethod = (member) =>
  ts.isMethodDeclaration(member) || (ts.isPropertyAssignment(member) && ts.isFunctionExpression(member.initializer));

/** With the comma after each. */
const cut = (text, members) =>
  members.reduceRight((rest, member) => {
    const end = text[member.end] === ',' ? member.end + 1 : member.end;
    return rest.slice(0, member.getFullStart()) + rest.slice(end);
  }, text);

let read;

function sources() {
  return (read ??= readdirSync(`${root}src`, { recursive: true })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(root, 'src', name), 'utf8')));
}
