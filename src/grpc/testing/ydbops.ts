/**
 * Replays the calls ydbops was seen to make for a command line, in order, and holds every answer against what that client
 * would do with it: it must end where the recording ends, and nowhere before.
 */
import { same } from '../../maintenance/cases/internal.ts';
import { type Json, type Scenario, World } from '../../maintenance/cases/scenario.ts';
import { type ActionGroupStates, ActionState_ActionStatus, AvailabilityMode } from '../gen/maintenance_pb.js';
import type { MaintenanceClient } from './client.ts';
import type { Stage } from './stage.ts';

const USER = 'test-user';

/** Everything that went otherwise; empty: it passes. */
export async function replayYdbops(scenario: Scenario, stage: Stage): Promise<readonly string[]> {
  const replay = new Replay(stage);
  const problems: string[] = [];
  for (const [i, step] of scenario.steps.entries()) {
    const calls = (step['expect_rpcs'] ?? []) as readonly (string | Json)[];
    const found = await replay.command(
      String(step['ydbops']),
      calls,
      (step['expect_output'] ?? []) as readonly string[],
    );
    problems.push(...found.map((problem) => `step ${i + 1}: ${problem}`));
  }
  return problems;
}

class Replay {
  readonly #client: MaintenanceClient;
  /** Generated identities by the names the recording gives them. */
  readonly #actions = new Map<string, string>();
  readonly #tasks = new Map<string, string>();
  #groups: readonly ActionGroupStates[] = [];
  #completed = 0;

  constructor(stage: Stage) {
    this.#client = stage.client('');
  }

  async command(
    line: string,
    calls: readonly (string | Json)[],
    output: readonly string[],
  ): Promise<readonly string[]> {
    const problems: string[] = [];
    const rolls = / ?(run|restart) /.test(` ${line} `);
    this.#groups = [];
    for (const [i, call] of calls.entries()) {
      const [name, argument] =
        typeof call === 'string' ? [call, undefined] : (Object.entries(call)[0] ?? ['', undefined]);
      const found = await this.#call(name, argument, rolls);
      problems.push(...found.map((problem) => `call ${i + 1} (${name}): ${problem}`));
    }
    return [...problems, ...this.#ended(rolls, calls, output)];
  }

  async #call(name: string, argument: unknown, rolls: boolean): Promise<readonly string[]> {
    switch (name) {
      case 'Login': {
        const { user } = argument as { readonly user: string };
        const { status, result } = await this.#client.login(user, `belay_api_token_of_${user}`);
        this.#client.token = result.token;
        // It hides all but the ends of a token and fails on a short one.
        return [
          ...same('status', 'SUCCESS', status),
          ...(result.token.length < 20 ? ['the token is too short'] : []),
        ];
      }
      case 'WhoAmI': {
        const { status, result } = await this.#client.whoAmI();
        return [...same('status', 'SUCCESS', status), ...same('user', USER, result.user)];
      }
      case 'ListClusterNodes':
        return this.#nodes();
      case 'ListDatabases':
        return same('status', 'SUCCESS', (await this.#client.listDatabases()).status);
      case 'ListMaintenanceTasks':
        return this.#list(argument as { readonly user: string } | undefined, rolls);
      case 'CreateMaintenanceTask':
        return this.#create(argument as Json);
      case 'RefreshMaintenanceTask':
        return this.#refresh(String(argument));
      case 'GetMaintenanceTask': {
        const { status, result } = await this.#client.get(this.#task(String(argument)));
        this.#take(result.actionGroupStates);
        return same('status', 'SUCCESS', status);
      }
      case 'CompleteAction':
        return this.#complete(argument as readonly string[], rolls);
      default:
        return [`nothing is known of ${name}`];
    }
  }

  async #nodes(): Promise<readonly string[]> {
    const { status, result } = await this.#client.nodes();
    const bad = result.nodes.filter((n) => n.nodeId === 0 || n.type.case === undefined || n.version === '');
    return [
      ...same('status', 'SUCCESS', status),
      ...bad.map((n) => `node ${n.nodeId} has no number, type or version`),
    ];
  }

  /** A roll drops every task of the same user first. */
  async #list(argument: { readonly user: string } | undefined, rolls: boolean): Promise<readonly string[]> {
    const { status, result } = await this.#client.list(argument?.user ?? USER);
    return [
      ...same('status', 'SUCCESS', status),
      ...(rolls ? same('tasks of the user', 0, result.tasksUids.length) : []),
    ];
  }

  async #create(argument: Json): Promise<readonly string[]> {
    const name = String(argument['task_uid']);
    const uid = `rolling-restart-${name}-uuid`;
    this.#tasks.set(name, uid);
    const mode = String(argument['availability_mode']) as keyof typeof AvailabilityMode;
    const seconds = BigInt(Number(argument['lock_seconds']));
    const { status, issues, result } = await this.#client.create({
      taskOptions: {
        taskUid: uid,
        description: String(argument['description']),
        availabilityMode: AvailabilityMode[mode],
        priority: Number(argument['priority'] ?? 0),
      },
      actionGroups: (
        argument['groups'] as readonly { readonly node_id?: number; readonly host?: string }[]
      ).map((g) => ({
        actions: [
          {
            action: {
              case: 'lockAction',
              value: {
                scope: {
                  scope:
                    g.host === undefined
                      ? { case: 'nodeId', value: g.node_id ?? 0 }
                      : { case: 'host', value: g.host },
                },
                duration: { seconds, nanos: 0 },
              },
            },
          },
        ],
      })),
    });
    this.#completed = 0;
    this.#take(result.actionGroupStates);
    return [...same('status', 'SUCCESS', status), ...issues, ...this.#wellFormed(uid, result.taskUid)];
  }

  async #refresh(name: string): Promise<readonly string[]> {
    const { status, issues, result } = await this.#client.refresh(this.#task(name));
    this.#take(result.actionGroupStates);
    return [
      ...same('status', 'SUCCESS', status),
      ...issues,
      ...this.#wellFormed(this.#task(name), result.taskUid),
    ];
  }

  /** What the client relies on: a state in every group, locks only, an identity on whatever is performed. */
  #wellFormed(uid: string, told: string): readonly string[] {
    const states = this.#groups.map((group) => group.actionStates[0]);
    return [
      ...same('task_uid', uid, told),
      ...(states.includes(undefined) ? ['a group without a state'] : []),
      ...states.filter((s) => s?.action?.action.case !== 'lockAction').map(() => 'an action that is no lock'),
      ...states
        .filter((s) => s?.status === ActionState_ActionStatus.PERFORMED && !s.actionUid?.actionId)
        .map(() => 'a performed action without an identity'),
    ];
  }

  #take(groups: readonly ActionGroupStates[]): void {
    this.#groups = groups;
  }

  #performed(): readonly string[] {
    return this.#groups.flatMap((group) => {
      const [state] = group.actionStates;
      return state?.status === ActionState_ActionStatus.PERFORMED ? [state.actionUid?.actionId ?? ''] : [];
    });
  }

  /** A roll completes whatever was performed in the last answer, all of it at once. */
  async #complete(refs: readonly string[], rolls: boolean): Promise<readonly string[]> {
    const performed = this.#performed();
    const problems = rolls ? same('performed actions', refs.length, performed.length) : [];
    const ids = refs.map((ref, i) => {
      const id = rolls ? (performed[i] ?? '') : (this.#actions.get(ref) ?? performed[i] ?? '');
      this.#actions.set(ref, id);
      const [task = ''] = ref.split('/');
      return { taskUid: this.#task(task), actionId: id };
    });
    const { status, issues, result } = await this.#client.complete(ids);
    this.#completed = result.actionStatuses.length;
    return [...problems, ...same('status', 'SUCCESS', status), ...issues];
  }

  /** It goes on until as many actions were completed as the last answer had groups. */
  #ended(rolls: boolean, calls: readonly (string | Json)[], output: readonly string[]): readonly string[] {
    const created = calls.some((call) => typeof call !== 'string' && 'CreateMaintenanceTask' in call);
    const panics = output.some((text) => text.startsWith('panic'));
    const completes = calls.some((call) => typeof call !== 'string' && 'CompleteAction' in call);
    if (!rolls || !created || panics || !completes) return [];
    return same('groups of the last answer that are completed', this.#groups.length, this.#completed);
  }

  #task(name: string): string {
    return this.#tasks.get(name) ?? name;
  }
}

/** The played cluster of a ydbops scenario. The mock it was recorded with gives one dynamic node of a database at a time. */
export function ydbopsWorld(scenario: Scenario): World {
  const most = Number(scenario.mock?.['max_dynnodes_performed_per_tenant'] ?? 1);
  return new World({ ...scenario.cluster, limits: { tenant_limit: most }, flags: { smart_mode: true } });
}
