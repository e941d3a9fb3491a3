/** The database commands of the stand-in server: what the dispatcher needs of them. */
import type { CommandSpec } from '../contracts.ts';

export { type CommandServices, createCommandServices } from './services.ts';

/** Every command of this part. */
export const commandSpecs: readonly CommandSpec[] = [];
