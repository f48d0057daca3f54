ALTER TABLE `devices` ADD `search_name` text;--> statement-breakpoint
UPDATE `devices` SET `search_name` = lower(`name`);--> statement-breakpoint
CREATE INDEX `devices_owner_name` ON `devices` (`owner_id`,`search_name`);--> statement-breakpoint
CREATE INDEX `devices_owner_serial` ON `devices` (`owner_id`,"device_sn" collate nocase);
--> statement-breakpoint
CREATE TRIGGER `devices_search_insert` AFTER INSERT ON `devices` BEGIN
	UPDATE `devices` SET `search_name` = lower(NEW.`name`) WHERE `id` = NEW.`id`;
END;
--> statement-breakpoint
CREATE TRIGGER `devices_search_rename` AFTER UPDATE OF `name` ON `devices`
WHEN OLD.`name` <> NEW.`name` BEGIN
	UPDATE `devices` SET `search_name` = lower(NEW.`name`) WHERE `id` = NEW.`id`;
END;
