ALTER TABLE `devices` ADD `due_at` integer;--> statement-breakpoint
CREATE INDEX `device_due` ON `devices` (`due_at`) WHERE "devices"."due_at" is not null;--> statement-breakpoint
ALTER TABLE `products` ADD `supports_hold` integer DEFAULT false NOT NULL;