DROP INDEX `devices_never_online`;--> statement-breakpoint
CREATE INDEX `devices_never_online` ON `devices` (`activated_at`) WHERE "devices"."last_online_at" is null and "devices"."activated_at" is not null
          and "devices"."claimed_at" is null and "devices"."registered_at" is null;