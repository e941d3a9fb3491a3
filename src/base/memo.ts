/**
 * A pure function of a text that remembers its answers, for what is asked the same many thousand times. At `limit` answers
 * it forgets all of them: the next ones cost what they cost without it. Not for secrets, neither as text nor as answer.
 */
export function remembered<Answer>(limit: number, make: (text: string) => Answer): (text: string) => Answer {
  const known = new Map<string, Answer>();
  return (text) => {
    const there = known.get(text);
    if (there !== undefined) return there;
    const answer = make(text);
    if (known.size >= limit) known.clear();
    known.set(text, answer);
    return answer;
  };
}
