/** Checks on options that need more than one of them. */
import type { ParsedOptions } from '../contracts.ts';
import type { TlsMode } from '../wire/listener.ts';
import { badOption as bad, option } from './options.ts';

/** Conflicts found while options are read: exit 2. */
export function assertOptions(options: ParsedOptions): void {
  const has = (path: string): boolean => option(options, path) !== undefined;
  if (has('net.bindIp') && option(options, 'net.bindIpAll') === true)
    throw bad('cannot specify both --bind_ip and --bind_ip_all');
  const destination = option<string>(options, 'systemLog.destination');
  if (destination === 'syslog')
    throw bad(
      has('systemLog.path')
        ? 'Cant use both a logpath and syslog '
        : 'the simulator cannot log to syslog; use --logpath',
    );
  if (destination === 'file' && !has('systemLog.path'))
    throw bad('systemLog.path is required if systemLog.destination is to a file');
  if (option(options, 'processManagement.fork') === true && !has('systemLog.path'))
    throw bad('--fork has to be used with --logpath or --syslog');
  if (
    option(options, 'systemLog.logRotate') === 'reopen' &&
    option(options, 'systemLog.logAppend') !== true
  ) {
    throw bad('logAppend must equal true if logRotate is set to reopen');
  }
  const role = option<string>(options, 'sharding.clusterRole');
  if (role !== undefined && !has('replication.replSetName')) {
    throw bad(
      `Cannot start a ${role} as a standalone server. Please use the option --replSet to start the node as a replica set.`,
    );
  }
  if (
    option(options, 'security.transitionToAuth') === true &&
    !has('security.keyFile') &&
    !has('security.clusterAuthMode')
  ) {
    throw bad('--transitionToAuth must be used with keyFile or x509 authentication');
  }
}

/** The way members show themselves to each other; `keyFile` also when nothing is said. */
export type ClusterAuthMode = 'keyFile' | 'sendKeyFile' | 'sendX509' | 'x509';

/** What is wrong with the cluster authentication mode, or null. Found late, at initialisation: exit 1. */
export function assertClusterAuth(options: ParsedOptions, tls: TlsMode): string | null {
  const mode = option<ClusterAuthMode>(options, 'security.clusterAuthMode');
  if (mode === undefined || mode === 'keyFile') return null;
  if (tls === 'disabled') return 'need to enable TLS via the tlsMode flag';
  if (tls === 'allowTLS' && mode !== 'sendKeyFile')
    return 'cannot have x.509 cluster authentication in allowTLS mode';
  if (mode !== 'x509' && mode !== 'sendX509' && option(options, 'security.keyFile') === undefined)
    return `${mode} needs a keyFile`;
  return null;
}
