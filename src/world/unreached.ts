/** Words of the closed sets that nothing reaches, with the reason: the shorter the better. */
export const UNREACHED: Readonly<Record<string, string>> = {};
