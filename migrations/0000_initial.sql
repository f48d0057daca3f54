CREATE TABLE `api_keys` (
	`key_id` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`secret_hash` text NOT NULL,
	`description` text NOT NULL,
	`created_at` integer NOT NULL,
	`last_used_at` integer,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `api_keys_user` ON `api_keys` (`user_id`,`created_at`,`key_id`);--> statement-breakpoint
CREATE TABLE `broker_outbox` (
	`device_id` text PRIMARY KEY NOT NULL,
	`product_key` text NOT NULL,
	`version` integer NOT NULL,
	`operation` text NOT NULL,
	`sealed_password` text,
	`ends_sessions` integer NOT NULL,
	`requested_at` integer NOT NULL,
	`attempts` integer NOT NULL,
	`next_attempt_at` integer NOT NULL,
	`claimed_until` integer NOT NULL,
	`delivered_at` integer
);
--> statement-breakpoint
CREATE INDEX `broker_outbox_due` ON `broker_outbox` (`next_attempt_at`) WHERE "broker_outbox"."delivered_at" is null;--> statement-breakpoint
CREATE INDEX `broker_outbox_delivered` ON `broker_outbox` (`delivered_at`) WHERE "broker_outbox"."delivered_at" is not null;--> statement-breakpoint
CREATE TABLE `devices` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`device_id` text NOT NULL,
	`product_id` integer NOT NULL,
	`device_sn` text NOT NULL,
	`owner_id` integer NOT NULL,
	`project_id` text NOT NULL,
	`name` text NOT NULL,
	`firmware_version` text NOT NULL,
	`chip_model` text NOT NULL,
	`is_disabled` integer DEFAULT false NOT NULL,
	`connection_status` integer NOT NULL,
	`projection_version` integer DEFAULT 0 NOT NULL,
	`last_online_at` integer,
	`activated_at` integer,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`owner_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `devices_device_id` ON `devices` (`device_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `devices_serial` ON `devices` (`product_id`,`device_sn`);--> statement-breakpoint
CREATE INDEX `devices_product` ON `devices` (`product_id`);--> statement-breakpoint
CREATE INDEX `devices_owner` ON `devices` (`owner_id`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `devices_owner_product` ON `devices` (`owner_id`,`product_id`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `devices_owner_status` ON `devices` (`owner_id`,`is_disabled`,`connection_status`,`created_at`,`id`);--> statement-breakpoint
CREATE TABLE `login_attempts` (
	`throttle_key` text PRIMARY KEY NOT NULL,
	`failures` integer NOT NULL,
	`retry_at` integer NOT NULL,
	`is_trusted` integer NOT NULL,
	`expires_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `login_attempts_expiry` ON `login_attempts` (`expires_at`);--> statement-breakpoint
CREATE TABLE `product_changes` (
	`product_id` integer PRIMARY KEY NOT NULL,
	`changed_at` integer NOT NULL,
	`cursor` integer NOT NULL,
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `products` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`product_key` text NOT NULL,
	`owner_id` integer NOT NULL,
	`project_id` text NOT NULL,
	`name` text NOT NULL,
	`description` text NOT NULL,
	`category` text NOT NULL,
	`control_mode` text NOT NULL,
	`ui_template` text NOT NULL,
	`icon_name` text NOT NULL,
	`icon_color` text NOT NULL,
	`manufacturer` text NOT NULL,
	`model` text NOT NULL,
	`status` integer NOT NULL,
	`offline_grace_seconds` integer DEFAULT 5 NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`owner_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `products_key` ON `products` (`product_key`);--> statement-breakpoint
CREATE INDEX `products_owner` ON `products` (`owner_id`,`created_at`,`id`) WHERE "products"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX `products_owner_category` ON `products` (`owner_id`,`category`,`created_at`,`id`) WHERE "products"."deleted_at" is null;--> statement-breakpoint
CREATE TABLE `refresh_tokens` (
	`hash` text PRIMARY KEY NOT NULL,
	`family` text NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`rotated_at` integer,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `refresh_tokens_family` ON `refresh_tokens` (`family`);--> statement-breakpoint
CREATE INDEX `refresh_tokens_user` ON `refresh_tokens` (`user_id`);--> statement-breakpoint
CREATE INDEX `refresh_tokens_expiry` ON `refresh_tokens` (`expires_at`);--> statement-breakpoint
CREATE TABLE `users` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`username` text NOT NULL,
	`email` text NOT NULL,
	`folded_username` text NOT NULL,
	`folded_email` text NOT NULL,
	`password_hash` text NOT NULL,
	`project_id` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `users_folded_username` ON `users` (`folded_username`);--> statement-breakpoint
CREATE UNIQUE INDEX `users_folded_email` ON `users` (`folded_email`);