// The command line of the commands of package.json. --help shows the options and ends well; an unusable option is refused
// in one line that names --help. The meaning of its options is each command's own.
import { parseArgs, type ParseArgsConfig } from 'node:util';

type Command<Config extends ParseArgsConfig> = Config & {
  name: string;
  usage: string;
};

const usageExitCode = 2;

/** What `read` makes of the options. Ends the process after --help, and if parsing or `read` throws. */
export function readCommandLine<Config extends ParseArgsConfig, Options>(
  command: Command<Config>,
  read: (parsed: ReturnType<typeof parseArgs<Config>>) => Options,
): Options {
  const { name, usage, ...config } = command;
  if (process.argv.slice(2).some((word) => word === '--help' || word === '-h')) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  try {
    return read(parseArgs(config as unknown as Config));
  } catch (error) {
    return refuseCommandLine(name, error);
  }
}

export function refuseCommandLine(name: string, problem: unknown): never {
  const text = problem instanceof Error ? problem.message : String(problem);
  // Node adds advice about positionals, which holds for few commands.
  const [first = text] =
    (problem as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true ? text.split('. ') : [text];
  process.stderr.write(`${first} (${name} -- --help shows what there is)\n`);
  process.exit(usageExitCode);
}
