CREATE TABLE `broker_outbox` (
	`device_id` text PRIMARY KEY NOT NULL,
	`product_key` text NOT NULL,
	`version` integer NOT NULL,
	`wish` text NOT NULL,
	`sealed_password` text,
	`ends_sessions` integer NOT NULL,
	`wished_at` integer NOT NULL,
	`attempts` integer NOT NULL,
	`next_attempt_at` integer NOT NULL,
	`claimed_until` integer NOT NULL,
	`delivered_at` integer
);
--> statement-breakpoint
CREATE INDEX `broker_outbox_due` ON `broker_outbox` (`next_attempt_at`) WHERE "broker_outbox"."delivered_at" is null;--> statement-breakpoint
CREATE INDEX `broker_outbox_delivered` ON `broker_outbox` (`delivered_at`) WHERE "broker_outbox"."delivered_at" is not null;