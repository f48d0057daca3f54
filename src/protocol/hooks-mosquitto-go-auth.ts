// Requests of mosquitto-go-auth's HTTP backend, JSON or form-encoded. Shapes only.
import { z } from 'zod';

const nameSchema = z.string().max(512);

export const goAuthUserSchema = z.object({ username: nameSchema, password: nameSchema, clientid: nameSchema });

export const goAuthAclSchema = z.object({
  username: nameSchema,
  topic: z.string().max(65_535),
  /** mosquitto's access: 1 a message is delivered, 2 published, 3 both, 4 a subscription. */
  acc: z.coerce.number().pipe(z.literal([1, 2, 3, 4])),
});
