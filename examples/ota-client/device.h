// What the files share. image.c says what is genuine, slots.c keeps it in files, update.c takes an image, main.c boots and talks.
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

// As the service serves it and a slot keeps it: the manifest, its signature in base64, each with its line end.
#define MANIFEST_MAX 1024
#define SIGNED_MAX (MANIFEST_MAX + 1 + 88 + 1)
#define BUSY_MS 5000

typedef struct {
  char product[65], version[24], minimum_version[24], sha256[65];
  long size;
} manifest_t;

// The ids of the first two, as a list in JSON: more do not fit into a packet of 256 bytes.
extern char key_ids[64];
bool load_keys(void);
int compare_versions(const char *one, const char *other);
bool read_manifest(const char *text, size_t length, manifest_t *manifest);
bool has_hash(const char *path, const char *sha256);
#define READ_TEXT(json, name, text) read_text(json, name, text, sizeof(text))
bool read_text(const cJSON *json, const char *name, char *text, size_t room);
long read_count(const cJSON *json, const char *name);

const char *image_of(char slot);
size_t read_file(const char *path, char *bytes, size_t room);
bool is_genuine(char slot, manifest_t *manifest);
char boot_slot(manifest_t *booted, bool *is_trying);
void try_slot(char slot);
void confirm_slot(char slot);
int prepare_slot(char slot, const char *text, size_t length);

void take_offer(const cJSON *json);
void take_data(const cJSON *json);
bool step_update(void);

extern struct self {
  manifest_t booted;
  char slot, product[65], device[65];
} self;
const char *setting(const char *name, const char *otherwise);
long now_ms(void);
void publish(const char *name, int qos, const char *format, ...) __attribute__((format(printf, 3, 4)));
void restart(void);
// Ends the process as a power cut would, if CUT_STEP names this step.
void cut_at_step(const char *step);
