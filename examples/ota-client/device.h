// What the files of this example share. image.c says what is genuine, slots.c what lies where, update.c takes an image, main.c boots and talks.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define IMAGE_MAX (16L * 1024 * 1024)
#define MANIFEST_MAX 1024
// As the service serves it and a slot keeps it: the manifest, its signature in base64, each with its line end.
#define SIGNED_MAX (MANIFEST_MAX + 1 + 88 + 1)
#define BUSY_MS 5000

typedef struct {
  char product[65], version[24], minimum_version[24], sha256[65];
  long size;
} manifest_t;

// image.c
int load_keys(const char *folder);
const char *key_id(int index);
bool is_version(const char *text);
int compare_versions(const char *one, const char *other);
bool read_manifest(const char *text, size_t length, manifest_t *manifest);
bool sha256_of_file(int file, char hex[65]);

// slots.c
void open_state(const char *folder);
char boot_slot(manifest_t *booted, bool *is_trying);
void confirm(char slot);
void try_slot(char slot);
int prepare_slot(char slot, const char *text, size_t length);
bool is_genuine(char slot, manifest_t *manifest);
size_t read_image(char slot, char *text, size_t size);

// update.c
void open_http(void);
void close_http(void);
void close_update(void);
void take_message(const char *name, const char *payload, size_t length);
void step_update(void);
long ms_until_step(void);
bool is_restarting(void);

// main.c
extern struct options {
  const char *state, *name, *host, *api, *ca, *cut_step;
  int port;
  long cut_at, wait_ms;
  bool is_over_mqtt, is_respawning;
} options;
extern struct self {
  manifest_t booted;
  char slot, product[65], device[65];
} self;
long now_ms(void);
int publish(const char *name, const char *payload, int qos);
// Ends the process as a power cut would, if the command line names this step.
void cut_at_step(const char *step);
