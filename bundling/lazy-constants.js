// Makes the schemas of a source file when they are first used instead of when the Worker starts, which needs few of them:
// `const pageSchema = z.object(...)` becomes a function that makes it once, and each use of it a call. The source stays plain.
import { dirname, resolve } from 'node:path';
import { readFileSync } from 'node:fs';
import ts from 'typescript';

const analyses = new Map();

/** The file at `path`, and the names in it that are made lazily: its own constants, and those that it imports. */
export function analyse(path) {
  const text = readFileSync(path, 'utf8');
  const known = analyses.get(path);
  if (known?.text === text) return known;
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  const analysis = { text, file, lazy: new Set(), own: new Set() };
  analyses.set(path, analysis);
  for (const { moduleSpecifier, importClause } of file.statements.filter(ts.isImportDeclaration)) {
    if (importClause?.isTypeOnly || !/^\..*\.ts$/.test(moduleSpecifier.text)) continue;
    const imported = analyse(resolve(dirname(path), moduleSpecifier.text)).own;
    for (const { name, propertyName } of importClause?.namedBindings?.elements ?? []) {
      if (imported.has((propertyName ?? name).text)) analysis.lazy.add(name.text);
    }
  }
  for (const { name, initializer } of constantsOf(file)) {
    if (!isMadeOfSchemas(initializer, analysis.lazy)) continue;
    analysis.own.add(name.text);
    analysis.lazy.add(name.text);
  }
  return analysis;
}

function constantsOf(file) {
  return file.statements
    .filter((node) => ts.isVariableStatement(node) && (node.declarationList.flags & ts.NodeFlags.Const) !== 0)
    .flatMap(({ declarationList }) => [...declarationList.declarations])
    .filter(({ name, initializer }) => ts.isIdentifier(name) && initializer !== undefined);
}

/** A schema, or an object of schemas; not what is made of them for another purpose, like a route. */
function isMadeOfSchemas(value, lazy) {
  const inner = ts.isSatisfiesExpression(value) || ts.isAsExpression(value) ? value.expression : value;
  if (ts.isCallExpression(inner)) return isSchemaCall(inner, lazy);
  if (!ts.isObjectLiteralExpression(inner)) return false;
  return inner.properties.some(
    (member) =>
      ts.isPropertyAssignment(member) &&
      (ts.isCallExpression(member.initializer)
        ? isSchemaCall(member.initializer, lazy)
        : ts.isIdentifier(member.initializer) && lazy.has(member.initializer.text)),
  );
}

/** `z.string().min(1)`, `pageSchema(...)` or `productSchema.partial()`. */
function isSchemaCall(call, lazy) {
  let callee = call.expression;
  while (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) callee = callee.expression;
  return ts.isIdentifier(callee) && (callee.text === 'z' || /Schema$/.test(callee.text) || lazy.has(callee.text));
}

/** Whether `node` is a use of a constant, where a call of it can stand. */
export function isUse(node) {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  if (ts.isPropertyAssignment(parent)) return parent.initializer === node;
  const declares = ts.isImportSpecifier(parent) || ts.isExportSpecifier(parent) || parent.name === node;
  return !declares || ts.isShorthandPropertyAssignment(parent);
}

/** The names of `lazy` that `scope` declares anew, as parameters or variables. */
export function shadowedIn(scope, lazy) {
  const found = [];
  const declare = (name) => {
    if (ts.isIdentifier(name)) return lazy.has(name.text) && found.push(name.text);
    return name.elements.forEach((element) => ts.isBindingElement(element) && declare(element.name));
  };
  if (ts.isFunctionLike(scope)) scope.parameters?.forEach(({ name }) => declare(name));
  if (ts.isBlock(scope) || ts.isCaseBlock(scope)) {
    const statements = ts.isBlock(scope) ? scope.statements : scope.clauses.flatMap((clause) => clause.statements);
    for (const statement of statements) {
      if (ts.isVariableStatement(statement))
        statement.declarationList.declarations.forEach(({ name }) => declare(name));
      else if (ts.isFunctionDeclaration(statement) && statement.name !== undefined) declare(statement.name);
    }
  }
  const head = ts.isForOfStatement(scope) || ts.isForStatement(scope) || ts.isForInStatement(scope);
  if (head && scope.initializer !== undefined && ts.isVariableDeclarationList(scope.initializer)) {
    scope.initializer.declarations.forEach(({ name }) => declare(name));
  }
  return found;
}
