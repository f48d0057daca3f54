CREATE TABLE `product_usage` (
	`product_id` integer NOT NULL,
	`day` integer NOT NULL,
	`devices` integer NOT NULL,
	`on_seconds` integer NOT NULL,
	`off_seconds` integer NOT NULL,
	`unknown_seconds` integer NOT NULL,
	`presses` integer NOT NULL,
	`failures` integer NOT NULL,
	PRIMARY KEY(`product_id`, `day`)
);
--> statement-breakpoint
CREATE INDEX `product_usage_day` ON `product_usage` (`day`);--> statement-breakpoint
ALTER TABLE `devices` ADD `usage_day` integer DEFAULT 0 NOT NULL;