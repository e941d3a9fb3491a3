/** The API's numbers about operations, each with its reason. */

/** Ended operations remembered for each cluster: a year of weekly work, and still one page of a list. The oldest go first. */
export const OPERATIONS_KEPT = 50;
/** Operations of one cluster that have not ended: they go one at a time (A13.6), and a longer queue is a script gone wild. */
export const OPERATIONS_OPEN = 20;
