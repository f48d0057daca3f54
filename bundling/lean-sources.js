// Takes out of a source file of the Worker what only the reference and migrations need, before it is bundled: descriptions, examples
// and the schemas of answers, which dev/build/reference-documents.js has read by then; indices and references of tables, which
// drizzle-kit reads. Schemas are made when they are first used (lazy-constants.js). Changes nothing that a request meets.
import ts from 'typescript';
import { analyse, isUse, shadowedIn } from './lazy-constants.js';

/** Members of a route that `createRoute` keeps for the reference alone. */
const documentingMembers = ['tags', 'summary', 'description', 'responses'];
/** Where the constants are schemas and routes: made without any effect, so that those that are not used can go. */
const declaring = /[\\/]src[\\/](protocol|routes|http)[\\/]/;

/** The text of `path` without them, its lines where they were. */
export function leanSource(path) {
  const { text, file, lazy, own } = analyse(path);
  const shadowed = [];
  const edits = [];
  const replace = (from, to, by = '') => {
    edits.push({ from, to, by: by + text.slice(from, to).replaceAll(/[^\n]/g, '') });
  };
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) return bindNamespace(node, replace);
    if (ts.isTypeNode(node)) return undefined;
    if (ts.isIdentifier(node)) {
      if (!lazy.has(node.text) || shadowed.includes(node.text) || !isUse(node)) return undefined;
      const isShort = ts.isShorthandPropertyAssignment(node.parent);
      return replace(node.end, node.end, isShort ? `: ${node.text}()` : '()');
    }
    if ((isCallOf(node, 'openapi') && !isOfRouter(node)) || isCallOf(node, 'references')) {
      replace(node.expression.expression.end, node.end);
      return visit(node.expression.expression);
    }
    if (ts.isCallExpression(node) && node.expression.getText() === 'sqliteTable') {
      const [name, columns, extras] = node.arguments;
      if (extras !== undefined) replace(columns.end, extras.end);
      return [name, columns].forEach(visit);
    }
    if (ts.isCallExpression(node) && node.expression.getText() === 'createRoute') {
      for (const member of node.arguments[0].properties) {
        if (!documentingMembers.includes(member.name?.getText())) visit(member);
        else replace(member.getStart(), text.indexOf(',', member.end) === member.end ? member.end + 1 : member.end);
      }
      return undefined;
    }
    if (isRequestOfRoute(node, path)) return makeLater(node.initializer, '() => (');
    if (ts.isVariableDeclaration(node) && node.parent.parent.parent === file) {
      const value = node.initializer;
      if (own.has(node.name.text)) {
        const made = `${node.name.text}$`;
        const start = node.parent.parent.getStart();
        replace(start, start, `let ${made}; `);
        return makeLater(value, `() => (${made} ??= `);
      }
      if (
        declaring.test(path) &&
        value !== undefined &&
        (ts.isCallExpression(value) || ts.isObjectLiteralExpression(value))
      ) {
        replace(value.getStart(), value.getStart(), '/* @__PURE__ */ (() => (');
        visit(value);
        replace(value.end, value.end, '))()');
        return undefined;
      }
    }
    const hidden = shadowedIn(node, lazy);
    shadowed.push(...hidden);
    ts.forEachChild(node, visit);
    shadowed.length -= hidden.length;
    return undefined;
  };
  const makeLater = (value, before) => {
    replace(value.getStart(), value.getStart(), before);
    visit(value);
    replace(value.end, value.end, ')');
  };
  ts.forEachChild(file, visit);
  return edits.sort((one, other) => other.from - one.from || other.to - one.to).reduce(apply, text);
}

const apply = (text, { from, to, by }) => text.slice(0, from) + by + text.slice(to);

const isCallOf = (node, method) =>
  ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression) && node.expression.name.text === method;

/** `router.openapi(route, handler)`; of a schema it is `schema.openapi('Name', {...})`, with one of them or both. */
const isOfRouter = (call) => call.arguments.length === 2 && !ts.isObjectLiteralExpression(call.arguments[1]);

/** Of `createRoute`, or of what several routes share; `withValidatorsMadeLater` of lean-libraries.js calls it. */
const isRequestOfRoute = (node, path) =>
  /[\\/]src[\\/]routes[\\/]/.test(path) &&
  ts.isPropertyAssignment(node) &&
  node.name.getText() === 'request' &&
  ts.isObjectLiteralExpression(node.initializer);

/** esbuild leaves out unused members of `import * as z`, not of an object `z` that a module exports. */
function bindNamespace(node, replace) {
  const { importClause: clause, moduleSpecifier } = node;
  if (clause === undefined || clause.isTypeOnly || !['zod', '@hono/zod-openapi'].includes(moduleSpecifier.text)) return;
  const members = clause.namedBindings.elements;
  if (!members.some(({ name, isTypeOnly }) => name.text === 'z' && !isTypeOnly)) return;
  const others = members.filter(({ name }) => name.text !== 'z').map((member) => member.getText());
  const rest = others.length === 0 ? '' : ` import { ${others.join(', ')} } from '${moduleSpecifier.text}';`;
  replace(node.getStart(), node.end, `import * as z from 'zod';${rest}`);
}
