CREATE TABLE `device_counts` (
	`product_id` integer NOT NULL,
	`owner_id` integer NOT NULL,
	`devices` integer DEFAULT 0 NOT NULL,
	`inactive` integer DEFAULT 0 NOT NULL,
	`online` integer DEFAULT 0 NOT NULL,
	`disabled` integer DEFAULT 0 NOT NULL,
	`hour` integer DEFAULT 0 NOT NULL,
	`new_in_hour` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`product_id`, `owner_id`)
);
--> statement-breakpoint
CREATE INDEX `device_counts_owner` ON `device_counts` (`owner_id`);--> statement-breakpoint
DROP INDEX `devices_owner_status`;--> statement-breakpoint
ALTER TABLE `devices` ADD `status` integer GENERATED ALWAYS AS (case when is_disabled then 3 else connection_status end) VIRTUAL;--> statement-breakpoint
CREATE INDEX `devices_owner_product_status` ON `devices` (`owner_id`,`product_id`,`status`,`created_at`,`id`);--> statement-breakpoint
CREATE INDEX `devices_owner_status` ON `devices` (`owner_id`,`status`,`created_at`,`id`);--> statement-breakpoint
INSERT INTO `device_counts` (`product_id`, `owner_id`, `devices`, `inactive`, `online`, `disabled`, `hour`, `new_in_hour`)
SELECT `product_id`, `owner_id`, count(*), sum(`status` = 0), sum(`status` = 1), sum(`status` = 3), 0, 0
FROM `devices` GROUP BY `product_id`, `owner_id`;
--> statement-breakpoint
CREATE TRIGGER `devices_count_insert` AFTER INSERT ON `devices` BEGIN
	INSERT OR IGNORE INTO `device_counts` (`product_id`, `owner_id`) VALUES (NEW.`product_id`, NEW.`owner_id`);
	UPDATE `device_counts` SET
		`devices` = `devices` + 1,
		`inactive` = `inactive` + (NEW.`status` = 0),
		`online` = `online` + (NEW.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3),
		`new_in_hour` = iif(NEW.`created_at` / 3600000 > `hour`, 1, `new_in_hour` + 1),
		`hour` = max(`hour`, NEW.`created_at` / 3600000)
	WHERE `product_id` = NEW.`product_id` AND `owner_id` = NEW.`owner_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_count_status` AFTER UPDATE OF `is_disabled`, `connection_status` ON `devices`
WHEN OLD.`status` <> NEW.`status` BEGIN
	UPDATE `device_counts` SET
		`inactive` = `inactive` + (NEW.`status` = 0) - (OLD.`status` = 0),
		`online` = `online` + (NEW.`status` = 1) - (OLD.`status` = 1),
		`disabled` = `disabled` + (NEW.`status` = 3) - (OLD.`status` = 3)
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
