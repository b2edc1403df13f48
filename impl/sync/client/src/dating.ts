// The event times by which own operations are shown that the server has not dated yet.

import { compareTimes, later, next } from "./clock.js";
import type { HybridTime } from "./clock.js";

/** An own operation that has got another event time from the server. */
export interface Moved {
  /** The time that it was made with. */
  from: HybridTime;
  /** The time that it got. */
  to: HybridTime;
}

/** The time by which an operation is shown: after what was done before it, though the server has moved that. */
export function shownAt(moved: Moved | null, time: HybridTime): HybridTime {
  return moved !== null && compareTimes(time, moved.from) > 0 ? later(time, next(moved.to)) : time;
}

/** The latest move, when an operation of the time `sent` has got the time `given`. */
export function noted(moved: Moved | null, sent: HybridTime, given: HybridTime): Moved | null {
  const known = compareTimes(sent, given) === 0 || (moved !== null && compareTimes(moved.to, given) >= 0);
  return known ? moved : { from: sent, to: given };
}
