CREATE TABLE `list_counts` (
	`list` text NOT NULL,
	`subject` text NOT NULL,
	`entries` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`list`, `subject`)
);
--> statement-breakpoint
DROP INDEX `device_invitations_email`;--> statement-breakpoint
CREATE INDEX `device_invitations_email_expiry` ON `device_invitations` (`folded_email`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_invitations_email` ON `device_invitations` (`folded_email`,`created_at`,`id`,`expires_at`);--> statement-breakpoint
DROP INDEX `device_transfers_to`;--> statement-breakpoint
CREATE INDEX `device_transfers_to` ON `device_transfers` (`to_user_id`,`offered_at`,`device_id`,`expires_at`);--> statement-breakpoint
INSERT INTO `list_counts` (`list`, `subject`, `entries`)
SELECT 'api_keys', CAST(`user_id` AS text), count(*) FROM `api_keys` GROUP BY `user_id`
UNION ALL SELECT 'invitations', `folded_email`, count(*) FROM `device_invitations` GROUP BY `folded_email`
UNION ALL SELECT 'users', iif(`disabled_at` IS NULL, 'enabled', 'disabled'), count(*) FROM `users` GROUP BY `disabled_at` IS NULL;
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
