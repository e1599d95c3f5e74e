/** A logger: `console`, pino and winston fit. */
export interface Logger {
  debug(message: string, ...rest: unknown[]): void;
  info(message: string, ...rest: unknown[]): void;
  warn(message: string, ...rest: unknown[]): void;
  error(message: string, ...rest: unknown[]): void;
}

/** Logs nothing. */
export const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export type Level = keyof Logger;
