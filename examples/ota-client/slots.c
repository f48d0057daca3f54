// What lies in the folder in which the device runs. A power cut may come between any two calls: each small file is replaced at once.
//   slot-a, slot-b         images; one runs, the other takes the next image
//   slot-a.manifest, …     their signed manifests
//   boot                   "a-": slot a boots. "a?": the next start tries b. "a!": b was tried, and has not confirmed itself
#include "device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A device that cannot keep its state must not go on.
static void must(bool is_done, const char *path) {
  if (is_done) return;
  perror(path);
  exit(1);
}

static void write_file(const char *path, const char *bytes, size_t length) {
  int file = open("new", O_WRONLY | O_CREAT | O_TRUNC, 0644), folder = open(".", O_RDONLY);
  must(file >= 0 && write(file, bytes, length) == (ssize_t)length && fsync(file) == 0 && close(file) == 0, path);
  must(rename("new", path) == 0 && fsync(folder) == 0 && close(folder) == 0, path);
}

// Up to `room` bytes; 0 if there is no such file.
size_t read_file(const char *path, char *bytes, size_t room) {
  int file = open(path, O_RDONLY);
  ssize_t length = file < 0 ? 0 : read(file, bytes, room);
  if (file >= 0) close(file);
  return length < 0 ? 0 : (size_t)length;
}

const char *image_of(char slot) { return slot == 'a' ? "slot-a" : "slot-b"; }
static const char *manifest_of(char slot) { return slot == 'a' ? "slot-a.manifest" : "slot-b.manifest"; }

// True if a trusted key signed the manifest and the image is the one that it names.
bool is_genuine(char slot, manifest_t *manifest) {
  char text[SIGNED_MAX + 1];
  size_t length = read_file(manifest_of(slot), text, sizeof text);
  return read_manifest(text, length, manifest) && has_hash(image_of(slot), manifest->sha256);
}

static void write_boot(char slot, char trial) { write_file("boot", (char[]){slot, trial}, 2); }
void confirm_slot(char slot) { write_boot(slot, '-'); }
void try_slot(char slot) { write_boot(slot == 'a' ? 'b' : 'a', '?'); }

// The slot that this start runs, or 0 if neither holds a genuine image.
char boot_slot(manifest_t *booted, bool *is_trying) {
  char boot[2] = "";
  read_file("boot", boot, sizeof boot);
  char slot = boot[0] == 'b' ? 'b' : 'a', other = slot == 'a' ? 'b' : 'a';
  *is_trying = boot[1] == '?' && is_genuine(other, booted);
  if (*is_trying) {
    write_boot(slot, '!');
    cut_at_step("trying");
    return other;
  }
  if (is_genuine(slot, booted)) return slot;
  if (!is_genuine(other, booted)) return 0;
  confirm_slot(other);
  return other;
}

// The open image file of a slot that is to get the image of this manifest: what it has of it already stays.
int prepare_slot(char slot, const char *text, size_t length) {
  char present[SIGNED_MAX + 1];
  bool is_same = read_file(manifest_of(slot), present, sizeof present) == length && memcmp(present, text, length) == 0;
  int file = open(image_of(slot), O_RDWR | O_CREAT | O_APPEND, 0644);
  must(file >= 0, image_of(slot));
  if (is_same) return file;
  // Emptied first: bytes of another image must not count as a part of this one.
  must(ftruncate(file, 0) == 0 && fsync(file) == 0, image_of(slot));
  cut_at_step("emptied");
  write_file(manifest_of(slot), text, length);
  return file;
}
