CREATE INDEX `device_transfers_to_expiry` ON `device_transfers` (`to_user_id`,`expires_at`);--> statement-breakpoint
INSERT INTO `list_counts` (`list`, `subject`, `entries`)
SELECT 'transfers', CAST(`to_user_id` AS text), count(*) FROM `device_transfers` WHERE `to_user_id` IS NOT NULL GROUP BY `to_user_id`;
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
