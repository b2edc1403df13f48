// Event times: a hybrid logical clock (Kulkarni and others, "Logical Physical Clocks", OPODIS 2014).

/** An event time: milliseconds since 1970 and, among events of one millisecond, a count. */
export interface HybridTime {
  millis: number;
  count: number;
}

/** Before all event times. */
export const START: HybridTime = { millis: 0, count: 0 };

const LARGEST_COUNT = 0xffff_ffff;

export function compareTimes(one: HybridTime, other: HybridTime): number {
  return one.millis - other.millis || one.count - other.count;
}

export function later(one: HybridTime, other: HybridTime): HybridTime {
  return compareTimes(one, other) < 0 ? other : one;
}

/** The first event time after this one. */
export function next(time: HybridTime): HybridTime {
  if (time.count < LARGEST_COUNT) return { millis: time.millis, count: time.count + 1 };
  return { millis: time.millis + 1, count: 0 };
}

/** The event time of what happens now: after `last`, also if the wall clock was set back. */
export function tick(last: HybridTime, wall: number): HybridTime {
  return wall > last.millis ? { millis: wall, count: 0 } : next(last);
}
