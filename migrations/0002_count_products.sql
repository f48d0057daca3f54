CREATE TABLE `product_counts` (
	`owner_id` integer PRIMARY KEY NOT NULL,
	`products` integer DEFAULT 0 NOT NULL,
	`product_keys` integer DEFAULT 0 NOT NULL
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
INSERT INTO `product_counts` (`owner_id`, `products`, `product_keys`)
SELECT `owner_id`, sum(`deleted_at` IS NULL), count(*) FROM `products` GROUP BY `owner_id`;
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
