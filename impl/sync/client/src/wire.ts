// What a device and the server say to each other (`../openapi.yaml`).

import type { HybridTime } from "./clock.js";
import type { Operation } from "./operation.js";

/** An operation on its way to the server. */
export interface Sent extends Operation {
  /** The latest event time that the server had confirmed to the device when it made the operation. */
  after: HybridTime;
}

/** What became of an operation. */
export type Became =
  | { is: "applied"; cursor: number; time: HybridTime; redated?: boolean; repeated?: boolean }
  | { is: "refused"; reason: string; message: string }
  | { is: "held"; message: string };

export type Answer = { op_id: string } & Became;

/** What the server makes of this device's clock. */
export interface ClockCheck {
  /** How many milliseconds it is ahead of the server's; negative if behind. */
  ahead: number;
  /** Whether it is believed. If not, this device's operations get event times by the server's clock. */
  believed: boolean;
  /** How far it may be off. */
  bound: number;
}

export interface Uploaded {
  answers: Answer[];
  head: number;
  now: number;
  clock: ClockCheck;
  most: number;
}

export interface Applied extends Operation {
  cursor: number;
  redated?: boolean;
}

export interface Pulled {
  operations: Applied[];
  cursor: number;
  head: number;
}

/** An error of the server (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}
