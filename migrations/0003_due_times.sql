CREATE TABLE `device_due` (
	`device_row` integer PRIMARY KEY NOT NULL,
	`due_at` integer NOT NULL,
	FOREIGN KEY (`device_row`) REFERENCES `devices`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE INDEX `device_due_time` ON `device_due` (`due_at`);--> statement-breakpoint
ALTER TABLE `products` ADD `supports_hold` integer DEFAULT false NOT NULL;