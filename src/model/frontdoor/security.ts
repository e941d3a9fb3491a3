import { isMap, type Loose, listAt, mapAt } from '../paths.ts';
import type { Conversion } from './foreign.ts';
import { usesTls } from './publicRules.ts';

const MODES: Readonly<Record<string, string>> = {
  SCRAM: 'SCRAM-SHA-256',
  'SCRAM-SHA-256': 'SCRAM-SHA-256',
  'SCRAM-SHA-1': 'SCRAM-SHA-1',
  'MONGODB-CR': 'SCRAM-SHA-1',
  X509: 'X509',
};

/** Converts the section `security`; `tlsMode` is what the mongod configuration asks for, if it does. */
export function convertSecurity(spec: Loose, tlsMode: string | undefined, conversion: Conversion): void {
  const security = mapAt(spec, 'security');
  convertTls(spec, security, tlsMode, conversion);
  convertAuthentication(security, conversion);
  if (!Array.isArray(security['roles'])) return;
  conversion.set('security.roles', listAt(security, 'roles'), 'security.roles');
}

function convertTls(spec: Loose, security: Loose, tlsMode: string | undefined, conversion: Conversion): void {
  const tls = mapAt(security, 'tls');
  const on = usesTls(spec);
  if (tlsMode !== undefined && tlsMode !== 'disabled' && !on) {
    const message =
      'is ignored without security.tls.enabled or security.certsSecretPrefix; set one of them, or leave the mode out';
    // A wish for TLS that is not carried out would be found out too late (CFG-02).
    conversion.problem('additionalMongodConfig', `net.tls.mode ${message}`);
  }
  conversion.set('security.tls.mode', on ? (tlsMode ?? 'requireTLS') : 'disabled', 'security.tls');
  conversion.set(
    'security.tls.additionalCertificateDomains',
    tls['additionalCertificateDomains'],
    'security.tls.additionalCertificateDomains',
  );
  const own = 'certificates are issued by Belay; to supply your own set spec.security.tls in belay.dev/v1';
  conversion.ignored('security.certsSecretPrefix', security['certsSecretPrefix'], own);
  conversion.ignored('security.tls.ca', tls['ca'], own);
  if (on) return;
  const off = 'spec.security.tls.mode is disabled, as the document does not turn TLS on';
  conversion.mapped('security.tls', off);
  // Who says so in so many words knows it; who says nothing may expect the default of this control plane.
  if (tls['enabled'] !== false)
    conversion.warnings.push({
      path: 'spec.security.tls',
      message:
        'members run with TLS disabled, as the document does not turn it on; set security.tls.enabled: true',
    });
}

function convertAuthentication(security: Loose, conversion: Conversion): void {
  const at = 'security.authentication';
  const authentication = mapAt(security, 'authentication');
  if (authentication['enabled'] !== true) {
    conversion.mapped(at, 'authentication is always on here; clients need a MongoDBUser');
  }
  const modes = listAt(authentication, 'modes').flatMap((mode) => MODES[String(mode)] ?? []);
  if (modes.length > 0) conversion.set(`${at}.modes`, [...new Set(modes)], `${at}.modes`);
  const reasons: Readonly<Record<string, string>> = {
    internalCluster: 'members prove themselves to each other with a key that Belay keeps',
    ignoreUnknownUsers: 'users that no MongoDBUser declares are never touched',
    requireClientTLSAuthentication: 'client certificates are not asked for here',
    agents: 'the agents here have credentials of their own',
    ldap: 'LDAP is not supported',
    oidcProviderConfigs: 'OIDC is not supported',
  };
  for (const [key, reason] of Object.entries(reasons)) {
    const value = authentication[key];
    if (isMap(value) && Object.keys(value).length === 0) continue;
    conversion.ignored(`${at}.${key}`, value, reason);
  }
}
