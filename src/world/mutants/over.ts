/** The same thing with some methods replaced. */
export const over = <T extends object>(thing: T, methods: Partial<T>): T =>
  new Proxy(thing, {
    get: (target, name) => {
      const own = methods[name as keyof T];
      const value = (own ?? Reflect.get(target, name, target)) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
