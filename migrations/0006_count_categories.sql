CREATE TABLE `product_category_counts` (
	`owner_id` integer NOT NULL,
	`category` text NOT NULL,
	`products` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`owner_id`, `category`)
);
--> statement-breakpoint
INSERT INTO `product_category_counts` (`owner_id`, `category`, `products`)
SELECT `owner_id`, `category`, count(*) FROM `products` WHERE `deleted_at` IS NULL GROUP BY `owner_id`, `category`;
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
