// Records of devices without a session, by one statement, for lists that have very many. Asserts nothing.
import { env } from 'cloudflare:workers';

export type RecordedDevices = {
  ownerId: number;
  productKey: string;
  count: number;
  /** 1 online, 2 offline, in turn. */
  statuses?: readonly (1 | 2)[];
};

export async function insertRecords({ ownerId, productKey, count, statuses = [2] }: RecordedDevices): Promise<void> {
  const statusOf = statuses.map((status, index) => `when ${index} then ${status}`).join(' ');
  await env.DB.prepare(
    `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?)
    insert into devices (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
      connection_status, activated_at, created_at)
    select 'dev_' || products.id || '_' || n, products.id, 'RECORD-' || n, ?, '', 'Device ' || n, '', '',
      case n % ${statuses.length} ${statusOf} end, 1700000000000 + n, 1700000000000 + n
    from products join numbers where product_key = ?`,
  )
    .bind(count, ownerId, productKey)
    .run();
}
