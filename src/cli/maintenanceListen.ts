import { parseAddress, type ServerOptions } from '../server/start.ts';

/** Options of the processes that serve YDB's maintenance service. */
export interface MaintenanceListen {
  readonly maintenanceListen?: string;
  readonly maintenanceCompat?: boolean;
  readonly maintenanceTopology?: string;
}

/** Where and how YDB's maintenance service is served, as options say it. */
export function maintenanceOf(options: MaintenanceListen): Pick<ServerOptions, 'maintenance'> {
  const { maintenanceListen: at, maintenanceCompat: compat = false, maintenanceTopology: topology } = options;
  if (at === undefined) return {};
  return { maintenance: { ...parseAddress(at), compat, ...(topology === undefined ? {} : { topology }) } };
}
