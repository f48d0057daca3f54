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
CREATE INDEX `device_transfers_to` ON `device_transfers` (`to_user_id`,`offered_at`,`device_id`);--> statement-breakpoint
CREATE INDEX `device_transfers_expiry` ON `device_transfers` (`expires_at`);--> statement-breakpoint
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
ALTER TABLE `devices` ADD `claimed_at` integer;--> statement-breakpoint
ALTER TABLE `devices` ADD `registered_at` integer;--> statement-breakpoint
ALTER TABLE `products` ADD `activation` text DEFAULT 'open' NOT NULL;--> statement-breakpoint
ALTER TABLE `products` ADD `reactivation` text;
--> statement-breakpoint
INSERT INTO `product_device_counts` (`product_id`, `devices`)
SELECT `product_id`, count(*) FROM `devices` GROUP BY `product_id`;
--> statement-breakpoint
UPDATE `product_device_counts` SET (`hour`, `new_in_hour`) = (
	SELECT `hour`, `new_in_hour` FROM `device_counts`
	WHERE `device_counts`.`product_id` = `product_device_counts`.`product_id` ORDER BY `hour` DESC LIMIT 1
);
--> statement-breakpoint
DROP TRIGGER `devices_count_status`;
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
