// Fills the D1 of a Worker that is stopped with devices, past the service: a million activations over HTTP would take an hour.
// The database's own triggers count them.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { WorkerRig } from '../../rig/worker/worker-rig.ts';

export type SeededDevice = { id: number; deviceId: string; createdAt: number };

/** A device a second, the newest now. */
const everyMs = 1_000;
/** Those of device ids, see domain/topics.ts. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
/** Odd, so that no two numbers below 2^40 become one. */
const scramble = 2_654_435_761;

/** The rig's owner has `count` devices of its product then; every third is inactive, online or offline. */
export async function seedDevices(rig: WorkerRig, count: number): Promise<void> {
  await rig.restartWorker('leave', () => fill(rig, count));
}

function fill(rig: WorkerRig, count: number): void {
  using database = new DatabaseSync(databaseFile(rig));
  const digits = Array.from(
    { length: 8 },
    (_, digit) => `substr('${alphabet}', 1 + ((((n * ${scramble}) & 1099511627775) >> ${digit * 5}) & 31), 1)`,
  );
  const nowMs = Date.now();
  database.exec('BEGIN');
  database
    .prepare(
      `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
       INSERT INTO devices (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
         connection_status, activated_at, created_at)
       SELECT 'dev_' || ${digits.join(' || ')}, product.id, 'SEED-' || n, product.owner_id, product.project_id,
         'Servo switch SEED-' || n, '1.0.0', 'ESP32', n % 3, CASE n % 3 WHEN 0 THEN NULL ELSE ? - (? - n) * ${everyMs} END,
         ? - (? - n) * ${everyMs}
       FROM numbers, (SELECT * FROM products WHERE product_key = ?) AS product`,
    )
    .run(count, nowMs, count, nowMs, count, rig.productKey);
  database.exec('COMMIT');
}

/** Reads that many devices, evenly spread over the database. */
export function readSeeded(rig: WorkerRig, count: number): SeededDevice[] {
  using database = new DatabaseSync(databaseFile(rig), { readOnly: true });
  const { total } = database.prepare('SELECT count(*) AS total FROM devices').get() as { total: number };
  const step = Math.max(1, Math.floor(total / count));
  const rows = database
    .prepare('SELECT id, device_id AS deviceId, created_at AS createdAt FROM devices WHERE id % ? = 0 ORDER BY id')
    .all(step);
  return rows as SeededDevice[];
}

function databaseFile(rig: WorkerRig): string {
  const dir = join(rig.stateDir, 'worker/v3/d1/miniflare-D1DatabaseObject');
  const name = readdirSync(dir).find((file) => file.endsWith('.sqlite') && file !== 'metadata.sqlite');
  if (name === undefined) throw new Error(`there is no database in ${dir}`);
  return join(dir, name);
}
