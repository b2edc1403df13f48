// The device's memory: one IndexedDB database, which all tabs share.

import { START } from "./clock.js";
import type { HybridTime } from "./clock.js";
import type { Moved } from "./dating.js";
import type { State } from "./merge.js";
import type { Change, Operation } from "./operation.js";
import type { ClockCheck, Sent } from "./wire.js";

/** An own operation that the confirmed states don't have yet. */
export interface Entry {
  /** Counts up in the order in which operations were made. */
  seq: number;
  sent: Sent;
  status:
    | { is: "waiting" }
    /** The server can't apply it yet. */
    | { is: "held"; message: string }
    /** The server has applied it, under this cursor and event time; it has not been pulled yet. */
    | { is: "applied"; cursor: number; time: HybridTime };
}

/** An own operation that the server will never apply. */
export interface Refused {
  op_id: string;
  target: string;
  change: Change;
  time: HybridTime;
  reason: string;
  message: string;
}

/** What the server's operations come to for one target. */
export interface Confirmed {
  target: string;
  state: State | null;
  /** Operations that only a later schema than this one can read. */
  unread: Operation[];
}

export interface Meta {
  device: string;
  /** Up to here operations have been pulled. */
  cursor: number;
  /** The operation there: a server that has another one has been restored from a backup. */
  last: string | null;
  /** The latest event time that the server has confirmed. */
  heard: HybridTime;
  /** The latest of the own operations that the server has moved. */
  moved: Moved | null;
  /** The latest version of the schema that any tab had. */
  schema: number;
  clock: ClockCheck | null;
}

/** There is no room on the device. Nothing of the operation has been stored. */
export class StorageFullError extends Error {
  override name = "StorageFullError";
  constructor(cause: unknown) {
    super("the browser's storage for this site is full, and the operation was not stored: free some, then act again", {
      cause,
    });
  }
}

/** The database can't be used. */
export class StorageError extends Error {
  override name = "StorageError";
}

type StoreName = "queue" | "states" | "refused" | "meta";

/** The version of these tables. */
const FORMAT = 1;

/** What a request comes to. Inside of a transaction nothing else may be awaited: it would be committed meanwhile. */
export function got<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class Database {
  private constructor(private readonly db: IDBDatabase) {}

  /** Opens the database of this name, and makes it if there is none. */
  static async open(name: string, schema: number, device?: string): Promise<{ database: Database; device: string }> {
    const request = indexedDB.open(`settled-sync:${name}`, FORMAT);
    request.onupgradeneeded = () => {
      const queue = request.result.createObjectStore("queue", { keyPath: "seq", autoIncrement: true });
      queue.createIndex("op_id", "sent.op_id", { unique: true });
      queue.createIndex("target", "sent.target");
      queue.createIndex("status", "status.is");
      request.result.createObjectStore("states", { keyPath: "target" });
      request.result.createObjectStore("refused", { keyPath: "op_id" });
      request.result.createObjectStore("meta");
    };
    let db: IDBDatabase;
    try {
      db = await got(request);
    } catch (cause) {
      const newer = cause instanceof DOMException && cause.name === "VersionError";
      const why = newer ? "a newer version of this client has written it: reload the page" : String(cause);
      throw new StorageError(`the database \`settled-sync:${name}\` can't be opened: ${why}`, { cause });
    }
    db.onversionchange = () => db.close();
    const database = new Database(db);
    const own = await database.run(["meta"], "readwrite", async (store) => {
      const known: Partial<Meta> | undefined = await got(store("meta").get("meta"));
      // An earlier version of this client has not written all of it.
      const meta: Meta = {
        device: device ?? crypto.randomUUID(),
        cursor: 0,
        last: null,
        heard: START,
        moved: null,
        schema,
        clock: null,
        ...known,
      };
      // A tab of an older version of the application may upload what this one has made.
      store("meta").put({ ...meta, schema: Math.max(meta.schema, schema) }, "meta");
      return meta.device;
    });
    if (device !== undefined && device !== own) {
      db.close();
      throw new StorageError(
        `\`${name}\` is the database of the device \`${own}\`, not of \`${device}\`: open another one`,
      );
    }
    return { database, device: own };
  }

  /** Runs a transaction; when this resolves, it is committed, and if it rejects, nothing of it is. */
  async run<T>(
    stores: StoreName[],
    mode: IDBTransactionMode,
    body: (store: (name: StoreName) => IDBObjectStore) => Promise<T>,
    durability: IDBTransactionDurability = "strict",
  ): Promise<T> {
    const transaction = this.db.transaction(stores, mode, { durability });
    const committed = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
    });
    const [result, end] = await Promise.allSettled([
      body((name) => transaction.objectStore(name)).catch((error: unknown) => {
        try {
          transaction.abort();
        } catch {
          // It has been aborted already, by the request that failed.
        }
        throw error;
      }),
      committed,
    ]);
    if (result.status === "fulfilled" && end.status === "fulfilled") return result.value;
    const errors = [end, result].flatMap((one) =>
      one.status === "rejected" && one.reason !== null ? [one.reason] : [],
    );
    const full = errors.find((error) => error instanceof Error && error.name === "QuotaExceededError");
    throw full ? new StorageFullError(full) : (errors.at(-1) ?? new StorageError("the transaction was aborted"));
  }

  close(): void {
    this.db.close();
  }
}

export async function readMeta(store: IDBObjectStore): Promise<Meta> {
  return got<Meta>(store.get("meta"));
}
