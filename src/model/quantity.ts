import { err, ok, type Result } from '../base/result.ts';
import { type Bytes, DAY, HOUR, MINUTE, type Millis, SECOND } from '../base/units.ts';

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

const BYTES_HELP = 'a size such as "10Gi", "512Mi" or "16G"';
const CPU_HELP = 'processors such as "2", "0.5" or "500m"';
const DURATION_HELP = 'a duration such as "30s", "15m", "2h", "1h30m" or "7d"';

/** Reads a size in Kubernetes' notation (`10Gi`, `16G`, `512Mi`). The error says what is accepted. */
export function parseBytes(text: string): Result<Bytes, string> {
  const match = /^(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$/.exec(text.trim());
  if (match === null) return err(`must be ${BYTES_HELP}`);
  const bytes = Number(match[1]) * (BYTE_UNITS[match[2] ?? ''] ?? 1);
  if (!Number.isSafeInteger(Math.round(bytes))) return err(`is too large, it must be ${BYTES_HELP}`);
  if (bytes < 1) return err(`must be more than zero: ${BYTES_HELP}`);
  return ok(Math.round(bytes));
}

/** Reads processors in Kubernetes' notation into thousandths (`500m` → 500, `2` → 2000). */
export function parseCpuMillis(text: string): Result<number, string> {
  const match = /^(\d+(?:\.\d+)?)(m)?$/.exec(text.trim());
  if (match === null) return err(`must be ${CPU_HELP}`);
  const millis = Number(match[1]) * (match[2] === 'm' ? 1 : 1000);
  if (millis < 1) return err(`must be more than zero: ${CPU_HELP}`);
  return ok(Math.round(millis));
}

const DURATION_UNITS: Readonly<Record<string, Millis>> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY };

/** Reads a duration (`1h30m`, `90s`, `7d`; units d, h, m, s, ms). Zero is accepted as `0s`. */
export function parseDuration(text: string): Result<Millis, string> {
  const trimmed = text.trim();
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(trimmed)) return err(`must be ${DURATION_HELP}`);
  let total = 0;
  for (const part of trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(part[1]) * (DURATION_UNITS[part[2] ?? ''] ?? 0);
  }
  if (!Number.isSafeInteger(Math.round(total))) return err(`is too long, it must be ${DURATION_HELP}`);
  return ok(Math.round(total));
}
