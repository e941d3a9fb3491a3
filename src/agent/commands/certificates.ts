import type { CommandOutcome, MemberCommand } from '../../clusters/snapshot.ts';
import { admin, type CommandContext, done } from './context.ts';

/**
 * Has the server read its certificate files again (5.0 and later, every kind of process in any state). A bad file is an
 * error and leaves what was served; connections that are open keep theirs.
 */
export async function rotateCertificates(
  context: CommandContext,
  { as }: Extract<MemberCommand, { kind: 'rotateCertificates' }>,
): Promise<CommandOutcome> {
  await admin(context, as).command({ rotateCertificates: 1 });
  return done();
}
