import { flattenConfig, keyPath, nestConfig, unclearKeyProblems } from '../managedKeys.ts';
import { isMap, type Loose } from '../paths.ts';
import type { Conversion } from './foreign.ts';

const TLS_MODES: Readonly<Record<string, string>> = {
  disabled: 'disabled',
  allowSSL: 'allowTLS',
  preferSSL: 'preferTLS',
  requireSSL: 'requireTLS',
  allowTLS: 'allowTLS',
  preferTLS: 'preferTLS',
  requireTLS: 'requireTLS',
};

/** Settings that are harmless where a Kubernetes pod carries the process and that the agent owns here. */
const IGNORED_SETTINGS = [
  'systemlog.logappend',
  'systemlog.destination',
  'systemlog.path',
  'systemlog.logrotate',
  'processmanagement.fork',
  'processmanagement.pidfilepath',
  'processmanagement.timezoneinfo',
];

/** What a mongod configuration says about things that are fields of their own here. */
export interface ConfigFindings {
  readonly port?: unknown;
  readonly tlsMode?: string;
}

/**
 * Converts a mongod configuration, dotted, nested or mixed. The port and the TLS mode become fields of their own, log
 * settings are left to the agent, everything else stays and is checked like any configuration.
 */
export function convertConfig(config: unknown, path: string, conversion: Conversion): ConfigFindings {
  if (!isMap(config)) return {};
  // Before spellings become one: afterwards a setting that was given twice cannot be told from another.
  for (const { key, message } of unclearKeyProblems(config)) conversion.problem(keyPath(path, key), message);
  const rest: Record<string, unknown> = {};
  let findings: ConfigFindings = {};
  for (const [key, value] of flattenConfig(config)) {
    const name = key.toLowerCase();
    const where = `${path}.${key}`;
    if (name === 'net.port' && path === 'additionalMongodConfig') {
      conversion.set('port', value, where);
      conversion.mapped(where, 'became spec.port');
      findings = { ...findings, port: value };
    } else if (name === 'net.tls.mode' || name === 'net.ssl.mode') {
      const mode = TLS_MODES[String(value)];
      if (mode === undefined)
        conversion.problem(where, `must be one of ${Object.keys(TLS_MODES).join(', ')}`);
      else {
        conversion.mapped(where, `became spec.security.tls.mode: ${mode}`);
        findings = { ...findings, tlsMode: mode };
      }
    } else if (IGNORED_SETTINGS.includes(name)) {
      conversion.ignored(where, value, 'the agent writes the log at its own place and rotates it');
    } else {
      rest[key] = value;
    }
  }
  conversion.set(path, nestIfSafe(rest));
  return findings;
}

// Keys that are refused must stay, so that validation names them; only a clean configuration is put into nested form.
function nestIfSafe(config: Loose): Loose {
  const nested = nestConfig(config);
  const complete = flattenConfig(nested).length === Object.keys(config).length;
  return complete ? nested : config;
}
