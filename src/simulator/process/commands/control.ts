/** Commands that act on the process: shutdown, rotateCertificates, logRotate, setFeatureCompatibilityVersion. */
import type { Document } from 'bson';
import type { CommandContext, CommandSpec } from '../../contracts.ts';
import { ServerError } from '../../contracts.ts';
import { asFlag, asNumber } from '../../wire/bson.ts';
import { atLeast } from '../../wire/versions.ts';
import { acceptedFcvs, type FcvDocument, storedFcv, writeFcv } from '../compatibility.ts';
import type { SimulatorNode } from '../node.ts';
import { TlsFileError } from '../tls.ts';
import { onCluster } from './info.ts';

const DEFAULT_SHUTDOWN_SECONDS = 15;

/** shutdown, rotateCertificates, logRotate, setFeatureCompatibilityVersion. */
export function controlSpecs(node: SimulatorNode, authEnabled: boolean): readonly CommandSpec[] {
  return [
    {
      name: 'shutdown',
      adminOnly: true,
      auth: onCluster('shutdown'),
      access: 'any',
      run: (context) => shutdown(context, node, authEnabled),
    },
    {
      name: 'rotateCertificates',
      adminOnly: true,
      auth: onCluster('rotateCertificates'),
      access: 'any',
      run: (context) => rotateCertificates(context, node),
    },
    {
      name: 'logRotate',
      adminOnly: true,
      auth: onCluster('logRotate'),
      access: 'any',
      run: () => logRotate(node),
    },
    {
      name: 'setFeatureCompatibilityVersion',
      adminOnly: true,
      auth: onCluster('setFeatureCompatibilityVersion'),
      access: 'write',
      fields: atLeast(node.version, '7.0') ? ['confirm', 'fromConfigServer'] : ['fromConfigServer'],
      run: (context) => setFcv(context, node),
    },
  ];
}

/** The process ends within the call, so a client sees its connection close; only a refusal is answered. */
async function shutdown(
  { command, connection }: CommandContext,
  node: SimulatorNode,
  authEnabled: boolean,
): Promise<Document> {
  if (!authEnabled && !connection.loopback) {
    throw new ServerError(
      13,
      'Unauthorized',
      'unauthorized: shutdown must run from localhost when running db without auth',
    );
  }
  const seconds = asNumber(command['timeoutSecs']) ?? DEFAULT_SHUTDOWN_SECONDS;
  node.log.log('I', 'COMMAND', 4695400, `conn${connection.id}`, 'terminating, shutdown command received', {
    client: connection.remote,
  });
  await node.end({ exitCode: 0, force: asFlag(command['force']), timeoutMillis: seconds * 1000 });
  return {};
}

function rotateCertificates({ command }: CommandContext, node: SimulatorNode): Document {
  if (!node.tls.enabled)
    throw new ServerError(20, 'IllegalOperation', 'Cannot rotate certificates, TLS is not enabled');
  try {
    node.tls.load();
  } catch (failure) {
    if (failure instanceof TlsFileError)
      throw new ServerError(failure.code, failure.codeName, failure.message);
    throw failure;
  }
  const message: unknown = command['message'];
  node.log.log(
    'I',
    'NETWORK',
    4913400,
    'conn',
    'Successfully rotated X509 certificates',
    typeof message === 'string' ? { message } : {},
  );
  return {};
}

function logRotate(node: SimulatorNode): Document {
  node.log.rotate();
  return {};
}

function setFcv(context: CommandContext, node: SimulatorNode): Document {
  const { command } = context;
  const wanted: unknown = command['setFeatureCompatibilityVersion'];
  const accepted = acceptedFcvs(node.version);
  if (typeof wanted !== 'string') {
    throw new ServerError(
      14,
      'TypeMismatch',
      "BSON field 'setFeatureCompatibilityVersion.setFeatureCompatibilityVersion' is the wrong type, expected type 'string'",
    );
  }
  if (!accepted.includes(wanted)) {
    throw new ServerError(
      4926900,
      'Location4926900',
      `Invalid feature compatibility version value '${wanted}'; expected '${accepted.join("' or '")}'. See https://docs.mongodb.com/master/release-notes/7.0-compatibility/#feature-compatibility.`,
    );
  }
  const current = storedFcv(node) as FcvDocument;
  if (current.version === wanted && current.targetVersion === undefined) return {};
  if (atLeast(node.version, '7.0') && command['confirm'] !== true) throw unconfirmed(node.version, wanted);
  assertTransition(current, wanted);
  const upgrading = Number(wanted) > Number(current.version);
  writeFcv(
    node,
    upgrading
      ? { version: current.version, targetVersion: wanted }
      : {
          version: wanted,
          targetVersion: wanted,
          previousVersion: current.previousVersion ?? current.version,
        },
  );
  writeFcv(node, { version: wanted });
  return {};
}

function unconfirmed(version: string, wanted: string): ServerError {
  return new ServerError(
    7369100,
    'Location7369100',
    `Once you have upgraded to ${wanted}, you will not be able to downgrade FCV and binary version without support assistance. ` +
      `Please re-run this command with 'confirm: true' to acknowledge this and continue with the FCV upgrade. (binary ${version})`,
  );
}

function assertTransition(current: FcvDocument, wanted: string): void {
  if (current.targetVersion === undefined || current.targetVersion === wanted) return;
  throw new ServerError(
    5147403,
    'Location5147403',
    `cannot set featureCompatibilityVersion to '${wanted}' while featureCompatibilityVersion is set to '${current.version}' with target '${current.targetVersion}'`,
  );
}
