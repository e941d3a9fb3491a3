/** Users and roles of the cluster as this router last read them from the config servers. */
import type { Document } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { ROLES, USERS } from '../auth/accounts.ts';
import type { Connection } from '../contracts.ts';
import { valueKey } from '../data/index.ts';
import type { SimulatorNode } from '../process/node.ts';
import type { Catalog } from './catalog.ts';

/** Commands that log in. */
const LOGINS: ReadonlySet<string> = new Set(['saslStart', 'authenticate']);
const GREETINGS: ReadonlySet<string> = new Set(['hello', 'isMaster', 'ismaster']);
/** Without any user the config servers are asked again at most so often, for the localhost exception. */
const EMPTY_AGE: Millis = 1 * SECOND;

/** Copies into the router's own store, where the parts for logging in and access look. */
export class AccountMirror {
  readonly #node: SimulatorNode;
  readonly #catalog: Catalog;
  #at: Millis = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | null = null;

  constructor(node: SimulatorNode, catalog: Catalog) {
    this.#node = node;
    this.#catalog = catalog;
  }

  /** Reads everything again. Calls at the same time share one reading. */
  refresh(): Promise<void> {
    this.#running ??= this.#read().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Reads again when `userCacheInvalidationIntervalSecs` are over. */
  async refreshWhenDue(): Promise<void> {
    const seconds = Number(this.#node.parameters.get('userCacheInvalidationIntervalSecs'));
    if (performance.now() - this.#at >= seconds * SECOND) await this.refresh();
  }

  /**
   * Before a command: a login of a user who is not known here yet, and any command from this machine while no user is known,
   * look at the config servers first. Failures are left to what follows.
   */
  async prepare(connection: Connection, command: Document): Promise<void> {
    const [name = ''] = Object.keys(command);
    const login = loginOf(name, command);
    const unknown = login !== null && !this.#knows(login);
    const lonely =
      connection.loopback &&
      connection.users.length === 0 &&
      !GREETINGS.has(name) &&
      this.#node.data.count(USERS) === 0 &&
      performance.now() - this.#at > EMPTY_AGE;
    if (unknown || lonely) await this.refresh().catch(() => undefined);
  }

  #knows({ user, db }: { readonly user: string | null; readonly db: string }): boolean {
    if (user === null) return false;
    if (user === '__system') return true;
    return this.#node.data.find(USERS, { filter: { _id: `${db}.${user}` } }).length > 0;
  }

  async #read(): Promise<void> {
    const [users, roles] = await Promise.all([this.#catalog.read(USERS, {}), this.#catalog.read(ROLES, {})]);
    this.#copy(USERS, users);
    this.#copy(ROLES, roles);
    this.#at = performance.now();
  }

  /** Changes only what differs: the store keeps a log of what it was told. */
  #copy(ns: string, wanted: readonly Document[]): void {
    const { data } = this.#node;
    const context = { stamp: this.#node.stamp(), wall: this.#node.now() };
    const present = new Map(data.find(ns, {}).map((document) => [String(document['_id']), document]));
    for (const document of wanted) {
      const id = String(document['_id']);
      const known = present.get(id);
      present.delete(id);
      if (known !== undefined && valueKey(known) === valueKey(document)) continue;
      const filter = { _id: document['_id'] };
      data.update(ns, { filter, update: document, multi: false, upsert: true }, context);
    }
    for (const id of present.keys()) data.delete(ns, { filter: { _id: id }, limit: 1 }, context);
  }
}

/** Who a command logs in or asks about; a null user could be anybody. */
function loginOf(
  name: string,
  command: Document,
): { readonly user: string | null; readonly db: string } | null {
  if (LOGINS.has(name)) return loginIn(command, String(command['$db']));
  if (!GREETINGS.has(name)) return null;
  const speculative = command['speculativeAuthenticate'] as Document | undefined;
  if (speculative !== undefined) return loginIn(speculative, String(speculative['db'] ?? 'admin'));
  const asked: unknown = command['saslSupportedMechs'];
  if (typeof asked !== 'string') return null;
  const dot = asked.indexOf('.');
  return { db: asked.slice(0, dot), user: asked.slice(dot + 1) };
}

/** SCRAM's first message names the user; a certificate's subject is only known to the connection. */
function loginIn(command: Document, db: string): { readonly user: string | null; readonly db: string } {
  if (command['mechanism'] === 'MONGODB-X509') return { user: null, db };
  const payload = command['payload'] as { value?: () => Uint8Array } | undefined;
  const text = payload?.value === undefined ? '' : Buffer.from(payload.value()).toString();
  const named = /(?:^|,)n=([^,]*),/.exec(text)?.[1];
  return { user: named?.replaceAll('=2C', ',').replaceAll('=3D', '=') ?? null, db };
}
