// What a use case is given beside its input. Services read no request and no global.
import type { Config } from '../config.ts';

export type ServiceContext = { env: Env; config: Config };
