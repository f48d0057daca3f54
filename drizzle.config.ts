// Turns a changed table of src/db/schema into the next file of migrations/ (`npm run db:generate`).
import { defineConfig } from 'drizzle-kit';

export default defineConfig({ dialect: 'sqlite', schema: './src/db/schema/*.ts', out: './migrations' });
