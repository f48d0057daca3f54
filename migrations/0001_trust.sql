CREATE TABLE `blocked_senders` (
	`user_id` integer NOT NULL,
	`sender_id` integer NOT NULL,
	PRIMARY KEY(`user_id`, `sender_id`),
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`sender_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `email_verifications` (
	`hash` text PRIMARY KEY NOT NULL,
	`user_id` integer NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `email_verifications_user` ON `email_verifications` (`user_id`,`created_at`);--> statement-breakpoint
CREATE INDEX `email_verifications_expiry` ON `email_verifications` (`expires_at`);--> statement-breakpoint
CREATE TABLE `security_events` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`user_id` integer NOT NULL,
	`kind` text NOT NULL,
	`client_address` text,
	`detail` text,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `security_events_user` ON `security_events` (`user_id`,`created_at`);--> statement-breakpoint
CREATE INDEX `security_events_age` ON `security_events` (`created_at`);--> statement-breakpoint
ALTER TABLE `refresh_tokens` ADD `session_id` text;--> statement-breakpoint
ALTER TABLE `refresh_tokens` ADD `confirmed_at` integer;--> statement-breakpoint
CREATE UNIQUE INDEX `refresh_tokens_session` ON `refresh_tokens` (`session_id`);--> statement-breakpoint
ALTER TABLE `users` ADD `email_verified_at` integer;--> statement-breakpoint
CREATE INDEX `users_disabled` ON `users` (`disabled_at`) WHERE "users"."disabled_at" is not null;--> statement-breakpoint
ALTER TABLE `claim_tokens` ADD `product_key` text;--> statement-breakpoint
ALTER TABLE `claim_tokens` ADD `made_by_key` text;--> statement-breakpoint
ALTER TABLE `claim_tokens` ADD `bound_to` text;--> statement-breakpoint
ALTER TABLE `claim_tokens` ADD `has_shown_code` integer;--> statement-breakpoint
CREATE INDEX `claim_tokens_key` ON `claim_tokens` (`made_by_key`) WHERE "claim_tokens"."made_by_key" is not null;--> statement-breakpoint
ALTER TABLE `device_invitations` ADD `made_by_key` text;--> statement-breakpoint
CREATE INDEX `device_invitations_sender` ON `device_invitations` (`invited_by`,`expires_at`);--> statement-breakpoint
CREATE INDEX `device_invitations_key` ON `device_invitations` (`made_by_key`) WHERE "device_invitations"."made_by_key" is not null;--> statement-breakpoint
ALTER TABLE `devices` ADD `activation_network` text;--> statement-breakpoint
ALTER TABLE `devices` ADD `claim_code_digest` text;--> statement-breakpoint
CREATE INDEX `devices_never_online` ON `devices` (`activated_at`) WHERE "devices"."last_online_at" is null and "devices"."activated_at" is not null;--> statement-breakpoint
CREATE INDEX `devices_never_online_network` ON `devices` (`activation_network`,`activated_at`) WHERE "devices"."last_online_at" is null and "devices"."activation_network" is not null;