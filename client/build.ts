// Builds what is published: one file of JavaScript and the declarations, with the types of the routes written out, so that
// a user of the package needs hono's client and nothing of the service; and the program `latchwork-sign`. Changes nothing outside
// of client/dist.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

const root = join(import.meta.dirname, '..');
const outDir = join(import.meta.dirname, 'dist');

writePackage(describeTypes(readProgram(join(root, 'tsconfig.src.json'), [join(import.meta.dirname, 'src/api.ts')])));
writeProgram(['main', 'firmware']);

function readProgram(configPath: string, files: string[]): ts.Program {
  const { config } = ts.readConfigFile(configPath, (path) => ts.sys.readFile(path)) as { config: object };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  return ts.createProgram(files, { ...options, composite: false, incremental: false, noEmit: true, rootDir: root });
}

/** `client/src/api.ts` with every type in full. */
function describeTypes(program: ts.Program): string {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(join(import.meta.dirname, 'src/api.ts'));
  const symbol = source && checker.getSymbolAtLocation(source);
  const exported = new Map(symbol && checker.getExportsOfModule(symbol).map((one) => [one.name, one]));
  const declared = (name: string): ts.Type => {
    const found = exported.get(name);
    if (found === undefined) throw new Error(`client/src/api.ts exports no ${name}`);
    return checker.getDeclaredTypeOfSymbol(found);
  };
  // Hono<Env, Schema, BasePath>: the schema alone says what can be called.
  const schema = checker.getTypeArguments(declared('Api') as ts.TypeReference)[1];
  if (schema === undefined) throw new Error('the routes have no schema');
  return [
    "import type { Hono } from 'hono';",
    ...['ErrorMessage', 'DirectEndReason'].map((name) => `export type ${name} = ${print(declared(name), checker)};`),
    `export type Api = Hono<{}, ${print(schema, checker)}, '/'>;`,
    '',
  ].join('\n');
}

/** Structure alone: names of types would have to be imported. Everything on the wire is JSON, so that it ends. */
function print(type: ts.Type, checker: ts.TypeChecker): string {
  const { flags } = type;
  // Any JSON: hono's own type of it names itself.
  if ((type.isUnion() ? type.types : [type]).some((one) => one.aliasSymbol?.name.startsWith('JSON'))) return 'unknown';
  if (type.isUnion()) return type.types.map((one) => print(one, checker)).join(' | ');
  if (type.isStringLiteral() || type.isNumberLiteral()) return JSON.stringify(type.value);
  if ((flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) === 0) return checker.typeToString(type);
  if (checker.isArrayType(type)) {
    const [item] = checker.getTypeArguments(type as ts.TypeReference);
    return `(${item === undefined ? 'never' : print(item, checker)})[]`;
  }
  if (checker.isTupleType(type)) {
    const items = checker.getTypeArguments(type as ts.TypeReference);
    return `[${items.map((item) => print(item, checker)).join(', ')}]`;
  }
  if (type.getCallSignatures().length > 0) throw new Error(`not JSON: ${checker.typeToString(type)}`);
  const members = checker.getPropertiesOfType(type).map((member) => {
    const mark = (member.flags & ts.SymbolFlags.Optional) === 0 ? '' : '?';
    return `${JSON.stringify(member.name)}${mark}: ${print(checker.getTypeOfSymbol(member), checker)}`;
  });
  for (const { keyType, type: value } of checker.getIndexInfosOfType(type)) {
    members.push(`[key: ${checker.typeToString(keyType)}]: ${print(value, checker)}`);
  }
  return `{ ${members.join('; ')} }`;
}

function writePackage(api: string): void {
  rmSync(outDir, { recursive: true, force: true });
  const sources = mkdtempSync(join(import.meta.dirname, '.build-'));
  try {
    cpSync(join(import.meta.dirname, 'src'), sources, { recursive: true });
    writeFileSync(join(sources, 'api.ts'), api);
    const program = ts.createProgram([join(sources, 'index.ts')], {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      lib: ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: true,
      declaration: true,
      rewriteRelativeImportExtensions: true,
      verbatimModuleSyntax: true,
      rootDir: sources,
      outDir,
    });
    const { diagnostics } = program.emit();
    const problems = [...ts.getPreEmitDiagnostics(program), ...diagnostics];
    if (problems.length > 0) {
      const host = {
        getCanonicalFileName: (name: string) => name,
        getCurrentDirectory: () => root,
        getNewLine: () => '\n',
      };
      throw new Error(ts.formatDiagnostics(problems, host));
    }
  } finally {
    rmSync(sources, { recursive: true });
  }
}

function writeProgram(modules: string[]): void {
  mkdirSync(join(outDir, 'sign'));
  for (const name of modules) {
    const source = readFileSync(join(import.meta.dirname, `sign/${name}.ts`), 'utf8');
    const { outputText } = ts.transpileModule(source, {
      compilerOptions: {
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.ESNext,
        rewriteRelativeImportExtensions: true,
        verbatimModuleSyntax: true,
      },
    });
    writeFileSync(join(outDir, `sign/${name}.js`), outputText);
  }
}
