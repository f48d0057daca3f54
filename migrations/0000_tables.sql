CREATE TABLE `api_keys` (
	`key_id` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`secret_hash` text NOT NULL,
	`description` text NOT NULL,
	`scopes` text NOT NULL,
	`product_key` text,
	`created_at` integer NOT NULL,
	`last_used_at` integer,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `api_keys_user` ON `api_keys` (`user_id`,`created_at`,`key_id`);--> statement-breakpoint
CREATE TABLE `login_attempts` (
	`throttle_key` text PRIMARY KEY NOT NULL,
	`failures` integer NOT NULL,
	`last_failed_at` integer NOT NULL,
	`expires_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `login_attempts_expiry` ON `login_attempts` (`expires_at`);--> statement-breakpoint
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
CREATE TABLE `password_resets` (
	`hash` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `password_resets_user` ON `password_resets` (`user_id`,`created_at`);--> statement-breakpoint
CREATE INDEX `password_resets_expiry` ON `password_resets` (`expires_at`);--> statement-breakpoint
CREATE TABLE `refresh_tokens` (
	`hash` text PRIMARY KEY NOT NULL,
	`family` text NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`rotated_at` integer,
	`rotations` text,
	`client_address` text NOT NULL,
	`user_agent` text NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `refresh_tokens_family` ON `refresh_tokens` (`family`);--> statement-breakpoint
CREATE INDEX `refresh_tokens_user` ON `refresh_tokens` (`user_id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `refresh_tokens_expiry` ON `refresh_tokens` (`expires_at`);--> statement-breakpoint
CREATE TABLE `service_settings` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `user_limits` (
	`user_id` integer NOT NULL,
	`name` text NOT NULL,
	`value` integer NOT NULL,
	PRIMARY KEY(`user_id`, `name`),
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `users` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`username` text NOT NULL,
	`email` text NOT NULL,
	`folded_username` text NOT NULL,
	`folded_email` text NOT NULL,
	`password_hash` text NOT NULL,
	`project_id` text NOT NULL,
	`created_at` integer NOT NULL,
	`disabled_at` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `users_folded_username` ON `users` (`folded_username`);--> statement-breakpoint
CREATE UNIQUE INDEX `users_folded_email` ON `users` (`folded_email`);--> statement-breakpoint
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
CREATE TABLE `claim_tokens` (
	`hash` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`used_by` text,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `claim_tokens_user` ON `claim_tokens` (`user_id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `claim_tokens_expiry` ON `claim_tokens` (`expires_at`);--> statement-breakpoint
CREATE TABLE `device_counts` (
	`product_id` integer NOT NULL,
	`owner_id` integer NOT NULL,
	`devices` integer DEFAULT 0 NOT NULL,
	`inactive` integer DEFAULT 0 NOT NULL,
	`online` integer DEFAULT 0 NOT NULL,
	`disabled` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`product_id`, `owner_id`)
);
--> statement-breakpoint
CREATE INDEX `device_counts_owner` ON `device_counts` (`owner_id`);--> statement-breakpoint
CREATE TABLE `device_invitations` (
	`id` text PRIMARY KEY NOT NULL,
	`device_row` integer NOT NULL,
	`email` text NOT NULL,
	`folded_email` text NOT NULL,
	`role` text NOT NULL,
	`invited_by` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`device_row`) REFERENCES `devices`(`id`) ON UPDATE no action ON DELETE cascade,
	FOREIGN KEY (`invited_by`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `device_invitations_device` ON `device_invitations` (`device_row`,`folded_email`);--> statement-breakpoint
CREATE INDEX `device_invitations_email` ON `device_invitations` (`folded_email`,`created_at`,`id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_invitations_email_expiry` ON `device_invitations` (`folded_email`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_invitations_expiry` ON `device_invitations` (`expires_at`);--> statement-breakpoint
CREATE TABLE `device_members` (
	`device_row` integer NOT NULL,
	`user_id` integer NOT NULL,
	`role` text NOT NULL,
	`since` integer NOT NULL,
	`product_id` integer NOT NULL,
	`status` integer NOT NULL,
	`device_created_at` integer NOT NULL,
	PRIMARY KEY(`device_row`, `user_id`),
	FOREIGN KEY (`device_row`) REFERENCES `devices`(`id`) ON UPDATE no action ON DELETE cascade,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `device_members_user` ON `device_members` (`user_id`,`role`,`device_created_at`,`device_row`);--> statement-breakpoint
CREATE INDEX `device_members_product` ON `device_members` (`user_id`,`role`,`product_id`,`device_created_at`,`device_row`);--> statement-breakpoint
CREATE INDEX `device_members_status` ON `device_members` (`user_id`,`role`,`status`,`device_created_at`,`device_row`);--> statement-breakpoint
CREATE INDEX `device_members_product_status` ON `device_members` (`user_id`,`role`,`product_id`,`status`,`device_created_at`,`device_row`);--> statement-breakpoint
CREATE TABLE `device_transfers` (
	`device_id` text PRIMARY KEY NOT NULL,
	`offer_id` text NOT NULL,
	`from_user_id` integer NOT NULL,
	`to_user_id` integer,
	`offered_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`from_user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`to_user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `device_transfers_from` ON `device_transfers` (`from_user_id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_transfers_to` ON `device_transfers` (`to_user_id`,`offered_at`,`device_id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_transfers_to_expiry` ON `device_transfers` (`to_user_id`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_transfers_expiry` ON `device_transfers` (`expires_at`);--> statement-breakpoint
CREATE TABLE `devices` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`device_id` text NOT NULL,
	`product_id` integer NOT NULL,
	`device_sn` text NOT NULL,
	`owner_id` integer NOT NULL,
	`project_id` text NOT NULL,
	`claimed_at` integer,
	`name` text NOT NULL,
	`search_name` text,
	`firmware_version` text NOT NULL,
	`chip_model` text NOT NULL,
	`is_disabled` integer DEFAULT false NOT NULL,
	`is_disabled_with_account` integer,
	`connection_status` integer NOT NULL,
	`status` integer GENERATED ALWAYS AS (case when is_disabled then 3 else connection_status end) VIRTUAL,
	`projection_version` integer DEFAULT 0 NOT NULL,
	`last_online_at` integer,
	`members_version` integer DEFAULT 0 NOT NULL,
	`activated_at` integer,
	`registered_at` integer,
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
CREATE INDEX `devices_owner_status` ON `devices` (`owner_id`,`status`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `devices_owner_product_status` ON `devices` (`owner_id`,`product_id`,`status`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `devices_owner_name` ON `devices` (`owner_id`,`search_name`);--> statement-breakpoint
CREATE INDEX `devices_owner_serial` ON `devices` (`owner_id`,"device_sn" collate nocase);--> statement-breakpoint
CREATE TABLE `list_counts` (
	`list` text NOT NULL,
	`subject` text NOT NULL,
	`entries` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`list`, `subject`)
);
--> statement-breakpoint
CREATE TABLE `member_counts` (
	`user_id` integer NOT NULL,
	`role` text NOT NULL,
	`product_id` integer NOT NULL,
	`devices` integer DEFAULT 0 NOT NULL,
	`inactive` integer DEFAULT 0 NOT NULL,
	`online` integer DEFAULT 0 NOT NULL,
	`disabled` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`user_id`, `role`, `product_id`)
);
--> statement-breakpoint
CREATE TABLE `product_category_counts` (
	`owner_id` integer NOT NULL,
	`category` text NOT NULL,
	`products` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`owner_id`, `category`)
);
--> statement-breakpoint
CREATE TABLE `product_changes` (
	`product_id` integer PRIMARY KEY NOT NULL,
	`changed_at` integer NOT NULL,
	`cursor` integer NOT NULL,
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `product_counts` (
	`owner_id` integer PRIMARY KEY NOT NULL,
	`products` integer DEFAULT 0 NOT NULL,
	`product_keys` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE `product_device_counts` (
	`product_id` integer PRIMARY KEY NOT NULL,
	`devices` integer DEFAULT 0 NOT NULL,
	`claimed` integer DEFAULT 0 NOT NULL,
	`hour` integer DEFAULT 0 NOT NULL,
	`new_in_hour` integer DEFAULT 0 NOT NULL,
	`day` integer DEFAULT 0 NOT NULL,
	`activated_in_day` integer DEFAULT 0 NOT NULL
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
	`activation` text DEFAULT 'open' NOT NULL,
	`reactivation` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted_at` integer,
	FOREIGN KEY (`owner_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `products_key` ON `products` (`product_key`);--> statement-breakpoint
CREATE INDEX `products_owner` ON `products` (`owner_id`,`created_at`,`id`) WHERE "products"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX `products_owner_category` ON `products` (`owner_id`,`category`,`created_at`,`id`) WHERE "products"."deleted_at" is null;
--> statement-breakpoint
CREATE TRIGGER `devices_count_insert` AFTER INSERT ON `devices` BEGIN
	INSERT OR IGNORE INTO `device_counts` (`product_id`, `owner_id`) VALUES (NEW.`product_id`, NEW.`owner_id`);
	UPDATE `device_counts` SET
		`devices` = `devices` + 1,
		`inactive` = `inactive` + (NEW.`status` = 0),
		`online` = `online` + (NEW.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3)
	WHERE `product_id` = NEW.`product_id` AND `owner_id` = NEW.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_count_delete` AFTER DELETE ON `devices` BEGIN
	UPDATE `device_counts` SET
		`devices` = `devices` - 1,
		`inactive` = `inactive` - (OLD.`status` = 0),
		`online` = `online` - (OLD.`status` = 1),
		`disabled` = `disabled` - (OLD.`status` = 3)
	WHERE `product_id` = OLD.`product_id` AND `owner_id` = OLD.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `products_count_insert` AFTER INSERT ON `products` BEGIN
	INSERT OR IGNORE INTO `product_counts` (`owner_id`) VALUES (NEW.`owner_id`);
	UPDATE `product_counts` SET
		`products` = `products` + (NEW.`deleted_at` IS NULL),
		`product_keys` = `product_keys` + 1
	WHERE `owner_id` = NEW.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `products_count_deleted` AFTER UPDATE OF `deleted_at` ON `products`
WHEN (OLD.`deleted_at` IS NULL) <> (NEW.`deleted_at` IS NULL) BEGIN
	UPDATE `product_counts` SET `products` = `products` + iif(NEW.`deleted_at` IS NULL, 1, -1)
	WHERE `owner_id` = NEW.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `products_category_insert` AFTER INSERT ON `products` WHEN NEW.`deleted_at` IS NULL BEGIN
	INSERT INTO `product_category_counts` (`owner_id`, `category`)
	SELECT NEW.`owner_id`, NEW.`category` WHERE NOT EXISTS (
		SELECT 1 FROM `product_category_counts` WHERE `owner_id` = NEW.`owner_id` AND `category` = NEW.`category`
	);
	UPDATE `product_category_counts` SET `products` = `products` + 1
	WHERE `owner_id` = NEW.`owner_id` AND `category` = NEW.`category`;
END;
--> statement-breakpoint
CREATE TRIGGER `products_category_change` AFTER UPDATE OF `category`, `deleted_at` ON `products`
WHEN OLD.`category` <> NEW.`category` OR (OLD.`deleted_at` IS NULL) <> (NEW.`deleted_at` IS NULL) BEGIN
	UPDATE `product_category_counts` SET `products` = `products` - (OLD.`deleted_at` IS NULL)
	WHERE `owner_id` = OLD.`owner_id` AND `category` = OLD.`category`;
	DELETE FROM `product_category_counts`
	WHERE `owner_id` = OLD.`owner_id` AND `category` = OLD.`category` AND `products` = 0;
	INSERT INTO `product_category_counts` (`owner_id`, `category`)
	SELECT NEW.`owner_id`, NEW.`category` WHERE NEW.`deleted_at` IS NULL AND NOT EXISTS (
		SELECT 1 FROM `product_category_counts` WHERE `owner_id` = NEW.`owner_id` AND `category` = NEW.`category`
	);
	UPDATE `product_category_counts` SET `products` = `products` + (NEW.`deleted_at` IS NULL)
	WHERE `owner_id` = NEW.`owner_id` AND `category` = NEW.`category`;
END;
--> statement-breakpoint
CREATE TRIGGER `device_members_count_insert` AFTER INSERT ON `device_members` BEGIN
	INSERT OR IGNORE INTO `member_counts` (`user_id`, `role`, `product_id`)
	VALUES (NEW.`user_id`, NEW.`role`, NEW.`product_id`);
	UPDATE `member_counts` SET
		`devices` = `devices` + 1,
		`inactive` = `inactive` + (NEW.`status` = 0),
		`online` = `online` + (NEW.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3)
	WHERE `user_id` = NEW.`user_id` AND `role` = NEW.`role` AND `product_id` = NEW.`product_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `device_members_count_delete` AFTER DELETE ON `device_members` BEGIN
	UPDATE `member_counts` SET
		`devices` = `devices` - 1,
		`inactive` = `inactive` - (OLD.`status` = 0),
		`online` = `online` - (OLD.`status` = 1),
		`disabled` = `disabled` - (OLD.`status` = 3)
	WHERE `user_id` = OLD.`user_id` AND `role` = OLD.`role` AND `product_id` = OLD.`product_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `device_members_count_update` AFTER UPDATE OF `role`, `status` ON `device_members`
WHEN OLD.`role` <> NEW.`role` OR OLD.`status` <> NEW.`status` BEGIN
	INSERT OR IGNORE INTO `member_counts` (`user_id`, `role`, `product_id`)
	VALUES (NEW.`user_id`, NEW.`role`, NEW.`product_id`);
	UPDATE `member_counts` SET
		`devices` = `devices` - 1,
		`inactive` = `inactive` - (OLD.`status` = 0),
		`online` = `online` - (OLD.`status` = 1),
		`disabled` = `disabled` - (OLD.`status` = 3)
	WHERE `user_id` = OLD.`user_id` AND `role` = OLD.`role` AND `product_id` = OLD.`product_id`;
	UPDATE `member_counts` SET
		`devices` = `devices` + 1,
		`inactive` = `inactive` + (NEW.`status` = 0),
		`online` = `online` + (NEW.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3)
	WHERE `user_id` = NEW.`user_id` AND `role` = NEW.`role` AND `product_id` = NEW.`product_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_share_status` AFTER UPDATE OF `is_disabled`, `connection_status` ON `devices`
WHEN OLD.`status` <> NEW.`status` BEGIN
	UPDATE `device_members` SET `status` = NEW.`status` WHERE `device_row` = NEW.`id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_count_status` AFTER UPDATE OF `is_disabled`, `connection_status` ON `devices`
WHEN OLD.`status` <> NEW.`status` AND OLD.`owner_id` = NEW.`owner_id` BEGIN
	UPDATE `device_counts` SET
		`inactive` = `inactive` + (NEW.`status` = 0) - (OLD.`status` = 0),
		`online` = `online` + (NEW.`status` = 1) - (OLD.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3) - (OLD.`status` = 3)
	WHERE `product_id` = NEW.`product_id` AND `owner_id` = NEW.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_count_owner` AFTER UPDATE OF `owner_id` ON `devices`
WHEN OLD.`owner_id` <> NEW.`owner_id` BEGIN
	UPDATE `device_counts` SET
		`devices` = `devices` - 1,
		`inactive` = `inactive` - (OLD.`status` = 0),
		`online` = `online` - (OLD.`status` = 1),
		`disabled` = `disabled` - (OLD.`status` = 3)
	WHERE `product_id` = OLD.`product_id` AND `owner_id` = OLD.`owner_id`;
	INSERT OR IGNORE INTO `device_counts` (`product_id`, `owner_id`) VALUES (NEW.`product_id`, NEW.`owner_id`);
	UPDATE `device_counts` SET
		`devices` = `devices` + 1,
		`inactive` = `inactive` + (NEW.`status` = 0),
		`online` = `online` + (NEW.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3)
	WHERE `product_id` = NEW.`product_id` AND `owner_id` = NEW.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_product_insert` AFTER INSERT ON `devices` BEGIN
	INSERT OR IGNORE INTO `product_device_counts` (`product_id`) VALUES (NEW.`product_id`);
	UPDATE `product_device_counts` SET
		`devices` = `devices` + 1,
		`claimed` = `claimed` + (NEW.`claimed_at` IS NOT NULL)
	WHERE `product_id` = NEW.`product_id`;
	UPDATE `product_device_counts` SET
		`new_in_hour` = iif(NEW.`created_at` / 3600000 > `hour`, 1, `new_in_hour` + 1),
		`hour` = max(`hour`, NEW.`created_at` / 3600000),
		`activated_in_day` = iif(NEW.`activated_at` / 86400000 > `day`, 1, `activated_in_day` + 1),
		`day` = max(`day`, NEW.`activated_at` / 86400000)
	WHERE `product_id` = NEW.`product_id` AND NEW.`activated_at` IS NOT NULL;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_product_claimed` AFTER UPDATE OF `claimed_at` ON `devices`
WHEN (OLD.`claimed_at` IS NULL) <> (NEW.`claimed_at` IS NULL) BEGIN
	UPDATE `product_device_counts` SET `claimed` = `claimed` + iif(NEW.`claimed_at` IS NULL, -1, 1)
	WHERE `product_id` = NEW.`product_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_product_activated` AFTER UPDATE OF `activated_at` ON `devices`
WHEN OLD.`activated_at` IS NULL AND NEW.`activated_at` IS NOT NULL BEGIN
	UPDATE `product_device_counts` SET
		`activated_in_day` = iif(NEW.`activated_at` / 86400000 > `day`, 1, `activated_in_day` + 1),
		`day` = max(`day`, NEW.`activated_at` / 86400000)
	WHERE `product_id` = NEW.`product_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_product_delete` AFTER DELETE ON `devices` BEGIN
	UPDATE `product_device_counts` SET
		`devices` = `devices` - 1,
		`claimed` = `claimed` - (OLD.`claimed_at` IS NOT NULL)
	WHERE `product_id` = OLD.`product_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `api_keys_count_insert` AFTER INSERT ON `api_keys` BEGIN
	INSERT INTO `list_counts` (`list`, `subject`)
	SELECT 'api_keys', CAST(NEW.`user_id` AS text) WHERE NOT EXISTS (
		SELECT 1 FROM `list_counts` WHERE `list` = 'api_keys' AND `subject` = CAST(NEW.`user_id` AS text)
	);
	UPDATE `list_counts` SET `entries` = `entries` + 1 WHERE `list` = 'api_keys' AND `subject` = CAST(NEW.`user_id` AS text);
END;
--> statement-breakpoint
CREATE TRIGGER `api_keys_count_delete` AFTER DELETE ON `api_keys` BEGIN
	UPDATE `list_counts` SET `entries` = `entries` - 1 WHERE `list` = 'api_keys' AND `subject` = CAST(OLD.`user_id` AS text);
	DELETE FROM `list_counts` WHERE `list` = 'api_keys' AND `subject` = CAST(OLD.`user_id` AS text) AND `entries` = 0;
END;
--> statement-breakpoint
CREATE TRIGGER `device_invitations_count_insert` AFTER INSERT ON `device_invitations` BEGIN
	INSERT INTO `list_counts` (`list`, `subject`)
	SELECT 'invitations', NEW.`folded_email` WHERE NOT EXISTS (
		SELECT 1 FROM `list_counts` WHERE `list` = 'invitations' AND `subject` = NEW.`folded_email`
	);
	UPDATE `list_counts` SET `entries` = `entries` + 1 WHERE `list` = 'invitations' AND `subject` = NEW.`folded_email`;
END;
--> statement-breakpoint
CREATE TRIGGER `device_invitations_count_delete` AFTER DELETE ON `device_invitations` BEGIN
	UPDATE `list_counts` SET `entries` = `entries` - 1 WHERE `list` = 'invitations' AND `subject` = OLD.`folded_email`;
	DELETE FROM `list_counts` WHERE `list` = 'invitations' AND `subject` = OLD.`folded_email` AND `entries` = 0;
END;
--> statement-breakpoint
CREATE TRIGGER `users_count_insert` AFTER INSERT ON `users` BEGIN
	INSERT INTO `list_counts` (`list`, `subject`)
	SELECT 'users', iif(NEW.`disabled_at` IS NULL, 'enabled', 'disabled') WHERE NOT EXISTS (
		SELECT 1 FROM `list_counts` WHERE `list` = 'users' AND `subject` = iif(NEW.`disabled_at` IS NULL, 'enabled', 'disabled')
	);
	UPDATE `list_counts` SET `entries` = `entries` + 1 WHERE `list` = 'users' AND `subject` = iif(NEW.`disabled_at` IS NULL, 'enabled', 'disabled');
END;
--> statement-breakpoint
CREATE TRIGGER `users_count_disabled` AFTER UPDATE OF `disabled_at` ON `users`
WHEN (OLD.`disabled_at` IS NULL) <> (NEW.`disabled_at` IS NULL) BEGIN
	INSERT INTO `list_counts` (`list`, `subject`)
	SELECT 'users', 'disabled' WHERE NOT EXISTS (
		SELECT 1 FROM `list_counts` WHERE `list` = 'users' AND `subject` = 'disabled'
	);
	UPDATE `list_counts` SET `entries` = `entries` + iif((`subject` = 'enabled') = (NEW.`disabled_at` IS NULL), 1, -1)
	WHERE `list` = 'users' AND `subject` IN ('enabled', 'disabled');
END;
--> statement-breakpoint
CREATE TRIGGER `devices_search_insert` AFTER INSERT ON `devices` BEGIN
	UPDATE `devices` SET `search_name` = lower(NEW.`name`) WHERE `id` = NEW.`id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_search_rename` AFTER UPDATE OF `name` ON `devices`
WHEN OLD.`name` <> NEW.`name` BEGIN
	UPDATE `devices` SET `search_name` = lower(NEW.`name`) WHERE `id` = NEW.`id`;
END;
--> statement-breakpoint
CREATE TRIGGER `device_transfers_count_insert` AFTER INSERT ON `device_transfers` WHEN NEW.`to_user_id` IS NOT NULL BEGIN
	INSERT INTO `list_counts` (`list`, `subject`)
	SELECT 'transfers', CAST(NEW.`to_user_id` AS text) WHERE NOT EXISTS (
		SELECT 1 FROM `list_counts` WHERE `list` = 'transfers' AND `subject` = CAST(NEW.`to_user_id` AS text)
	);
	UPDATE `list_counts` SET `entries` = `entries` + 1 WHERE `list` = 'transfers' AND `subject` = CAST(NEW.`to_user_id` AS text);
END;
--> statement-breakpoint
CREATE TRIGGER `device_transfers_count_delete` AFTER DELETE ON `device_transfers` WHEN OLD.`to_user_id` IS NOT NULL BEGIN
	UPDATE `list_counts` SET `entries` = `entries` - 1 WHERE `list` = 'transfers' AND `subject` = CAST(OLD.`to_user_id` AS text);
	DELETE FROM `list_counts` WHERE `list` = 'transfers' AND `subject` = CAST(OLD.`to_user_id` AS text) AND `entries` = 0;
END;
--> statement-breakpoint
CREATE TRIGGER `device_transfers_count_leave` AFTER UPDATE OF `to_user_id` ON `device_transfers`
WHEN OLD.`to_user_id` IS NOT NULL AND OLD.`to_user_id` IS NOT NEW.`to_user_id` BEGIN
	UPDATE `list_counts` SET `entries` = `entries` - 1 WHERE `list` = 'transfers' AND `subject` = CAST(OLD.`to_user_id` AS text);
	DELETE FROM `list_counts` WHERE `list` = 'transfers' AND `subject` = CAST(OLD.`to_user_id` AS text) AND `entries` = 0;
END;
--> statement-breakpoint
CREATE TRIGGER `device_transfers_count_reach` AFTER UPDATE OF `to_user_id` ON `device_transfers`
WHEN NEW.`to_user_id` IS NOT NULL AND OLD.`to_user_id` IS NOT NEW.`to_user_id` BEGIN
	INSERT INTO `list_counts` (`list`, `subject`)
	SELECT 'transfers', CAST(NEW.`to_user_id` AS text) WHERE NOT EXISTS (
		SELECT 1 FROM `list_counts` WHERE `list` = 'transfers' AND `subject` = CAST(NEW.`to_user_id` AS text)
	);
	UPDATE `list_counts` SET `entries` = `entries` + 1 WHERE `list` = 'transfers' AND `subject` = CAST(NEW.`to_user_id` AS text);
END;
