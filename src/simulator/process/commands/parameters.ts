/** getParameter and setParameter, with the two that change how members talk: tlsMode and clusterAuthMode (7.2). */
import type { Document } from 'bson';
import type { CommandContext, CommandSpec } from '../../contracts.ts';
import { ServerError } from '../../contracts.ts';
import { asFlag, asNumber, isDocument, typeName } from '../../wire/bson.ts';
import { GENERIC_ARGUMENTS } from '../../wire/generic.ts';
import type { TlsMode } from '../../wire/listener.ts';
import { storedFcv } from '../compatibility.ts';
import type { SimulatorNode } from '../node.ts';
import { PARAMETERS, parameterRow } from '../parameters.ts';
import type { ClusterAuthMode } from '../validate.ts';
import { onCluster } from './info.ts';

/** A parameter that is read from, or set on, the process itself. */
interface Special {
  readonly runtime: boolean;
  get(): unknown;
  set?(value: unknown): void;
}

/** getParameter and setParameter. */
export function parameterSpecs(node: SimulatorNode): readonly CommandSpec[] {
  const specials = specialParameters(node);
  return [
    {
      name: 'getParameter',
      adminOnly: true,
      auth: onCluster('getParameter'),
      access: 'any',
      run: (context) => getParameter(context, node, specials),
    },
    {
      name: 'setParameter',
      adminOnly: true,
      auth: onCluster('setParameter'),
      access: 'any',
      run: (context) => setParameter(context, node, specials),
    },
  ];
}

type Specials = ReadonlyMap<string, Special>;

function getParameter({ command }: CommandContext, node: SimulatorNode, specials: Specials): Document {
  const asked: unknown = command['getParameter'];
  const options = isDocument(asked) ? asked : {};
  const details = asFlag(options['showDetails']);
  const all = asked === '*' || asFlag(options['allParameters']);
  if (options['allParameters'] !== undefined && typeof options['allParameters'] === 'string') {
    throw new ServerError(
      14,
      'TypeMismatch',
      `BSON field 'getParameter.allParameters' is the wrong type '${typeName(options['allParameters'])}', expected types '[bool, long, int, decimal, double']`,
    );
  }
  const known = [...PARAMETERS.map((row) => row.name), ...specials.keys()].sort();
  const names = all
    ? known
    : Object.keys(command)
        .slice(1)
        .filter((name) => !GENERIC_ARGUMENTS.has(name) && known.includes(name));
  if (names.length === 0) throw new ServerError(72, 'InvalidOptions', 'no option found to get');
  const entries = names.map((name) => [
    name,
    details ? detailed(name, node, specials) : currentValue(name, node, specials),
  ]);
  return Object.fromEntries(entries) as Document;
}

function currentValue(name: string, node: SimulatorNode, specials: Specials): unknown {
  const special = specials.get(name);
  return special === undefined ? node.parameters.get(name) : special.get();
}

function detailed(name: string, node: SimulatorNode, specials: Specials): Document {
  const row = parameterRow(name);
  return {
    value: currentValue(name, node, specials),
    settableAtRuntime: row?.runtime ?? specials.get(name)?.runtime ?? false,
    settableAtStartup: row?.startup ?? true,
  };
}

function setParameter({ command }: CommandContext, node: SimulatorNode, specials: Specials): Document {
  const given = Object.entries(command)
    .slice(1)
    .filter(([name]) => !GENERIC_ARGUMENTS.has(name));
  if (given.length === 0)
    throw new ServerError(72, 'InvalidOptions', 'no option found to set, use help:true to see options ');
  const changes = given.map(([name, value]) => changeOf(name, value, node, specials));
  const was = changes.map(({ before }) => before);
  for (const { apply } of changes) apply();
  return { was: was[0] };
}

interface Change {
  readonly before: unknown;
  apply(): void;
}

function changeOf(name: string, value: unknown, node: SimulatorNode, specials: Specials): Change {
  const special = specials.get(name);
  if (special?.set !== undefined) {
    const { get, set } = special;
    return { before: get(), apply: () => set(value) };
  }
  const row = parameterRow(name);
  if (row === undefined && special === undefined) {
    throw new ServerError(
      72,
      'InvalidOptions',
      `attempted to set unrecognized parameter [${name}], use help:true to see options `,
    );
  }
  if (row?.runtime !== true)
    throw new ServerError(20, 'IllegalOperation', `not allowed to change [${name}] at runtime`);
  const converted = convert(name, value, row.value);
  return {
    before: node.parameters.get(name),
    apply: () => {
      node.parameters.set(name, converted);
      if (name === 'logLevel') node.log.verbosity = Number(converted);
    },
  };
}

function convert(name: string, value: unknown, example: unknown): unknown {
  if (typeof example === 'boolean') return asFlag(value);
  if (typeof example === 'number') {
    const number =
      asNumber(value) ?? (typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN);
    if (Number.isNaN(number))
      throw new ServerError(2, 'BadValue', `Failed to convert value for parameter ${name} to a number`);
    if (number < 0 && example >= 0)
      throw new ServerError(
        2,
        'BadValue',
        `Invalid value for parameter ${name}: ${number} is not greater than or equal to 0`,
      );
    return number;
  }
  if (typeof example === 'string' && typeof value !== 'string')
    throw new ServerError(2, 'BadValue', `Invalid value for parameter ${name}`);
  return value;
}

// ── the special ones ───────────────────────────────────────────────────────────────────────────────────────────────

function specialParameters(node: SimulatorNode): Specials {
  const tlsMode: Special = {
    runtime: true,
    get: () => node.tls.mode(),
    set: (value) => setTlsMode(node, value),
  };
  return new Map<string, Special>([
    ['tlsMode', tlsMode],
    [
      'sslMode',
      {
        ...tlsMode,
        get: () => node.tls.mode().replace('TLS', 'SSL'),
        set: (value) => setTlsMode(node, String(value).replace('SSL', 'TLS')),
      },
    ],
    [
      'clusterAuthMode',
      { runtime: true, get: () => node.clusterAuthMode, set: (value) => setClusterAuthMode(node, value) },
    ],
    ...(node.program === 'mongos'
      ? []
      : [['featureCompatibilityVersion', { runtime: false, get: () => storedFcv(node) }] as const]),
  ]);
}

const TLS_STEPS: Readonly<Partial<Record<TlsMode, TlsMode>>> = {
  allowTLS: 'preferTLS',
  preferTLS: 'requireTLS',
};
const TLS_WORDS = ['disabled', 'allowTLS', 'preferTLS', 'requireTLS'];

function setTlsMode(node: SimulatorNode, value: unknown): void {
  const from = node.tls.mode();
  if (typeof value !== 'string' || !TLS_WORDS.includes(value)) {
    throw new ServerError(
      2,
      'BadValue',
      `Invalid value for tlsMode: ${String(value)}. Allowed values are 'disabled', 'allowTLS', 'preferTLS' and 'requireTLS'`,
    );
  }
  if (TLS_STEPS[from] !== value) {
    throw new ServerError(
      2,
      'BadValue',
      `Illegal state transition for tlsMode, attempt to change from ${from} to ${value}`,
    );
  }
  node.tls.setMode(value as TlsMode);
}

const AUTH_STEPS: Readonly<Partial<Record<ClusterAuthMode, ClusterAuthMode>>> = {
  sendKeyFile: 'sendX509',
  sendX509: 'x509',
};

function setClusterAuthMode(node: SimulatorNode, value: unknown): void {
  const from = node.clusterAuthMode;
  const tls = node.tls.mode();
  if ((value === 'sendX509' || value === 'x509') && (tls === 'disabled' || tls === 'allowTLS')) {
    throw new ServerError(
      2,
      'BadValue',
      'Illegal state transition for clusterAuthMode, need to enable SSL for outgoing connections',
    );
  }
  if (typeof value !== 'string' || !['keyFile', 'sendKeyFile', 'sendX509', 'x509'].includes(value)) {
    throw new ServerError(
      2,
      'BadValue',
      `Invalid clusterAuthMode '${String(value)}', expected one of: 'keyFile', 'sendKeyFile', 'sendX509', or 'x509'`,
    );
  }
  if (AUTH_STEPS[from] !== value) {
    throw new ServerError(
      5579202,
      'Location5579202',
      `Illegal state transition for clusterAuthMode from '${from}' to '${value}'`,
    );
  }
  node.clusterAuthMode = value as ClusterAuthMode;
}
