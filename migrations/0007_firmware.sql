CREATE TABLE `campaigns` (
	`campaign_id` text PRIMARY KEY NOT NULL,
	`product_id` integer NOT NULL,
	`version` text NOT NULL,
	`state` text NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `campaigns_product` ON `campaigns` (`product_id`,`created_at`);--> statement-breakpoint
CREATE UNIQUE INDEX `campaigns_open` ON `campaigns` (`product_id`) WHERE state in ('running', 'paused');--> statement-breakpoint
CREATE TABLE `firmware` (
	`product_id` integer NOT NULL,
	`version` text NOT NULL,
	`manifest` text NOT NULL,
	`signature` text NOT NULL,
	`key_id` text NOT NULL,
	`created_at` integer NOT NULL,
	`stored_at` integer,
	PRIMARY KEY(`product_id`, `version`),
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `firmware_keys` (
	`product_id` integer NOT NULL,
	`key_id` text NOT NULL,
	`algorithm` text NOT NULL,
	`public_key` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`product_id`, `key_id`),
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action
);
