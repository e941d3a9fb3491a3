/** Effects on the users that people declare. */
import { BelayError } from '../../base/error.ts';
import type { Step } from '../../clusters/index.ts';
import { keyOf } from '../../engine/informer.ts';
import type { StoredObject } from '../../engine/ports.ts';
import type { Effect } from '../../engine/provider.ts';
import { EXTERNAL_DB } from '../../model/index.ts';
import { USER_FINALIZER } from '../names.ts';
import type { UserObject } from '../userObjects.ts';
import { USER_ADMIN } from '../users.ts';
import { commandAs, notConfirmed, outcomeOf, run, runAs } from './commands.ts';
import { done, type Work } from './work.ts';

/** B3.3: added or made equal; then confirmed by a login of its own, and only then published (URI-04). */
export async function applyUser(work: Work, step: Extract<Step, { kind: 'applyUser' }>): Promise<Effect> {
  const { desired, state, userSecrets } = work;
  const { username, db, roles, passwordRef } = step.user;
  const document = documentOf(work, step.user.uid);
  const password = passwordRef === null ? null : await userSecrets.password(passwordRef);
  if (password === null && db !== EXTERNAL_DB) {
    throw new BelayError('UserPasswordMissing', `the password of ${username} is gone`, { retry: 'later' });
  }
  await holdUser(work, document.object);
  const users = [{ user: username, db, password, roles }];
  const answer = await runAs(work, step.via, USER_ADMIN, (as) => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users,
    drop: [],
  }));
  if (answer.kind !== 'done') return { outcome: outcomeOf(answer, {}) };
  if (password !== null) {
    const as = { user: username, db, password };
    const login = await run(work, step.via, { kind: 'verifyLogin', as });
    if (login.kind !== 'done') return { outcome: notConfirmed(outcomeOf(login, {})) };
  }
  await userSecrets.publishConnection(document.object, desired, state);
  const former = state.users.find((u) => u.uid === step.user.uid);
  const rows =
    former === undefined
      ? []
      : await userSecrets.formerRows(document.object, former.connectionSecret ?? null);
  return { ...done({}), also: { secretPrefixesToDelete: rows } };
}

function documentOf(work: Work, uid: string): UserObject {
  const document = work.reading.userObjects.find((user) => user.desired.uid === uid);
  if (document !== undefined) return document;
  throw new BelayError('NotFound', 'the MongoDBUser is gone', { retry: 'later' });
}

/** The document may not vanish while the database knows the user (B3.5). */
async function holdUser(work: Work, user: StoredObject): Promise<void> {
  const latest = await work.store.get(keyOf(user));
  if (latest === null || latest.metadata.uid !== user.metadata.uid) {
    throw new BelayError('NotFound', 'the MongoDBUser is gone', { retry: 'later' });
  }
  const { finalizers, deletionTimestamp, resourceVersion } = latest.metadata;
  if (finalizers.includes(USER_FINALIZER)) return;
  if (deletionTimestamp !== null) throw new BelayError('NotFound', 'the MongoDBUser is being deleted');
  const held = await work.store.update(
    keyOf(user),
    { finalizers: [...finalizers, USER_FINALIZER] },
    resourceVersion,
  );
  if (held !== null) work.informer.learn(held);
}

export async function dropUser(work: Work, step: Extract<Step, { kind: 'dropUser' }>): Promise<Effect> {
  const drop = [{ user: step.username, db: step.db }];
  return commandAs(work, step.via, USER_ADMIN, (as) => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users: [],
    drop,
  }));
}
