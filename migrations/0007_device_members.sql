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
CREATE INDEX `device_invitations_email` ON `device_invitations` (`folded_email`,`created_at`,`id`);--> statement-breakpoint
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
ALTER TABLE `devices` ADD `members_version` integer DEFAULT 0 NOT NULL;
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
