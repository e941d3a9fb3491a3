/** Runs `work` for every item, at most `limit` at once. All end before it does; the first failure is thrown then. */
export async function runPool<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const item = items[next++] as T;
      await work(item).catch((failure: unknown) => {
        failures.push(failure);
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}
