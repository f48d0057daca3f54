CREATE TABLE `login_devices` (
	`hash` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	`shown_at` integer,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `login_devices_user` ON `login_devices` (`user_id`,`shown_at`,`created_at`);--> statement-breakpoint
CREATE INDEX `login_devices_expiry` ON `login_devices` (`expires_at`);--> statement-breakpoint
DROP INDEX `refresh_tokens_user`;--> statement-breakpoint
ALTER TABLE `refresh_tokens` ADD `rotations` text;--> statement-breakpoint
CREATE INDEX `refresh_tokens_user` ON `refresh_tokens` (`user_id`,`expires_at`);