DROP INDEX `refresh_tokens_user`;--> statement-breakpoint
ALTER TABLE `refresh_tokens` ADD `rotations` text;--> statement-breakpoint
CREATE INDEX `refresh_tokens_user` ON `refresh_tokens` (`user_id`,`expires_at`);