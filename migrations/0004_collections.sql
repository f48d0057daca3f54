CREATE TABLE `collections` (
	`id` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`kind` text NOT NULL,
	`name` text NOT NULL,
	`content` text NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `collections_user` ON `collections` (`user_id`,`kind`,`created_at`,`id`);--> statement-breakpoint
ALTER TABLE `devices` ADD `tags` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
CREATE INDEX `devices_owner_tagged` ON `devices` (`owner_id`,`created_at`,`id`) WHERE "devices"."tags" <> '[]';