/** The database commands of the stand-in server: what the dispatcher needs of them. */
import type { CommandSpec } from '../contracts.ts';
import { ADMIN_COMMANDS } from './admin.ts';
import { aggregateCommand } from './aggregate.ts';
import { bulkWriteCommand } from './bulk-write.ts';
import { STATS_COMMANDS } from './collection-stats.ts';
import { COLLECTION_COMMANDS } from './collections.ts';
import { OPERATION_COMMANDS } from './current-op.ts';
import { getMoreCommand, killCursorsCommand } from './cursor-commands.ts';
import { explainCommand } from './explain.ts';
import { countCommand, distinctCommand, findCommand } from './find.ts';
import { findAndModifyCommand } from './find-and-modify.ts';
import { INDEX_COMMANDS } from './indexes.ts';
import { LISTING_COMMANDS } from './listings.ts';
import { SESSION_COMMANDS } from './session-commands.ts';
import { deleteCommand, insertCommand, updateCommand } from './writes.ts';

export { type CommandServices, createCommandServices } from './services.ts';

/** Every command of this part. */
export const commandSpecs: readonly CommandSpec[] = [
  insertCommand,
  updateCommand,
  deleteCommand,
  findCommand,
  countCommand,
  distinctCommand,
  findAndModifyCommand,
  aggregateCommand,
  bulkWriteCommand,
  explainCommand,
  getMoreCommand,
  killCursorsCommand,
  ...COLLECTION_COMMANDS,
  ...LISTING_COMMANDS,
  ...INDEX_COMMANDS,
  ...STATS_COMMANDS,
  ...SESSION_COMMANDS,
  ...OPERATION_COMMANDS,
  ...ADMIN_COMMANDS,
];
