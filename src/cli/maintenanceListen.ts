import { parseAddress, type ServerOptions } from '../server/start.ts';

/** Options of the processes that serve YDB's maintenance service. */
export interface MaintenanceListen {
  readonly maintenanceListen?: string;
  readonly maintenanceCompat?: boolean;
  readonly maintenanceTopology?: string;
  readonly maintenancePriority?: number;
}

/** Where and how YDB's maintenance service is served, and how urgent our own work is, as options say it. */
export function maintenanceOf(
  options: MaintenanceListen,
): Pick<ServerOptions, 'maintenance' | 'maintenancePriority'> {
  const { maintenanceListen: at, maintenanceCompat: compat = false, maintenanceTopology: topology } = options;
  const { maintenancePriority } = options;
  const own = maintenancePriority === undefined ? {} : { maintenancePriority };
  if (at === undefined) return own;
  return {
    ...own,
    maintenance: { ...parseAddress(at), compat, ...(topology === undefined ? {} : { topology }) },
  };
}
