import type { Problem } from '../../base/error.ts';
import { type Loose, listAt, mapAt, textAt } from '../paths.ts';
import { EXTERNAL_DB, SYSTEM_USERNAMES } from './user.ts';

/** Rules about several fields of a MongoDBUser. */
export function userRules(document: Loose): { problems: Problem[]; warnings: Problem[] } {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const spec = mapAt(document, 'spec');
  const username = textAt(spec, 'username') ?? '';
  const db = textAt(spec, 'db') ?? 'admin';
  const reserved: readonly string[] = SYSTEM_USERNAMES;
  if ((db === 'admin' && reserved.includes(username)) || username === '__system') {
    problems.push({
      path: 'spec.username',
      message: `${username} is kept by Belay itself; choose another name`,
    });
  }
  if (username.includes('\0'))
    problems.push({ path: 'spec.username', message: 'must not contain the character NUL' });
  if (/[\s/\\."$]/.test(db) && db !== EXTERNAL_DB) {
    problems.push({ path: 'spec.db', message: `must be the name of a database, or ${EXTERNAL_DB}` });
  }
  if (db === EXTERNAL_DB && spec['passwordSecretKeyRef'] !== undefined) {
    const message = `users of ${EXTERNAL_DB} prove themselves with a certificate and have no password; leave it out`;
    problems.push({ path: 'spec.passwordSecretKeyRef', message });
  }
  if (db === 'local')
    problems.push({ path: 'spec.db', message: 'local is not replicated, users cannot be kept in it' });
  checkRoles(spec, problems, warnings);
  return { problems, warnings };
}

function checkRoles(spec: Loose, problems: Problem[], warnings: Problem[]): void {
  const roles = listAt(spec, 'roles');
  const seen = new Set<string>();
  for (const [index, role] of roles.entries()) {
    const path = `spec.roles[${index}]`;
    const id = `${textAt(role, 'name')}@${textAt(role, 'db')}`;
    if (textAt(role, 'name') === '__system') {
      problems.push({
        path: `${path}.name`,
        message: '__system is for the server itself and cannot be granted',
      });
    }
    if (seen.has(id)) problems.push({ path, message: `${id} is given twice` });
    seen.add(id);
  }
  if (roles.length === 0)
    warnings.push({ path: 'spec.roles', message: 'a user without roles may do nothing' });
}
