ALTER TABLE `refresh_tokens` ADD `client_address` text;--> statement-breakpoint
ALTER TABLE `refresh_tokens` ADD `user_agent` text;