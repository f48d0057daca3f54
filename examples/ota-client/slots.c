// What lies where, in the state folder. A power cut may come between any two calls: each file is replaced at once or not at all.
//   slot-a, slot-b               images; one runs, the other takes the next image
//   slot-a.manifest, …           their signed manifests
//   boot                         the slot that boots
//   trying                       "b new" or "b begun": a slot that boots once, and again only after it confirmed itself
#include "device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int folder;

void open_state(const char *path) {
  folder = open(path, O_RDONLY | O_DIRECTORY);
  if (folder >= 0) return;
  perror(path);
  exit(2);
}

// A device that cannot keep its state must not go on.
static void must(bool is_done, const char *name) {
  if (is_done) return;
  perror(name);
  exit(1);
}

static void write_file(const char *name, const char *text, size_t length) {
  int file = openat(folder, "new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  must(file >= 0 && write(file, text, length) == (ssize_t)length && fsync(file) == 0 && close(file) == 0, name);
  must(renameat(folder, "new", folder, name) == 0 && fsync(folder) == 0, name);
}

static void remove_file(const char *name) { must(unlinkat(folder, name, 0) == 0 && fsync(folder) == 0, name); }

// Up to `size` bytes; 0 if there is no such file.
static size_t read_file(const char *name, char *text, size_t size) {
  int file = openat(folder, name, O_RDONLY);
  ssize_t length = file < 0 ? 0 : read(file, text, size);
  if (file >= 0) close(file);
  return length < 0 ? 0 : (size_t)length;
}

static const char *name_of(char slot, bool is_manifest) {
  if (slot == 'a') return is_manifest ? "slot-a.manifest" : "slot-a";
  return is_manifest ? "slot-b.manifest" : "slot-b";
}

// True if a trusted key signed the manifest and the image is the one that it names.
bool is_genuine(char slot, manifest_t *manifest) {
  char text[SIGNED_MAX + 1], hash[65];
  struct stat status;
  if (!read_manifest(text, read_file(name_of(slot, true), text, sizeof text), manifest)) return false;
  int file = openat(folder, name_of(slot, false), O_RDONLY);
  bool is_right = file >= 0 && fstat(file, &status) == 0 && status.st_size == manifest->size &&
                  sha256_of_file(file, hash) && strcmp(hash, manifest->sha256) == 0;
  if (file >= 0) close(file);
  return is_right;
}

// The begin of an image, in place of running it.
size_t read_image(char slot, char *text, size_t size) { return read_file(name_of(slot, false), text, size); }

// The slot that this start runs, or 0 if neither holds a genuine image.
char boot_slot(manifest_t *booted, bool *is_trying) {
  char text[8], slot = 'a';
  if (read_file("boot", text, 1) == 1 && text[0] == 'b') slot = 'b';
  char other = slot == 'a' ? 'b' : 'a';
  *is_trying = false;
  if (read_file("trying", text, sizeof text) >= 5) {
    if (text[0] == other && text[2] == 'n' && is_genuine(other, booted)) {
      write_file("trying", other == 'a' ? "a begun" : "b begun", 7);
      cut_at_step("trying");
      *is_trying = true;
      return other;
    }
    // It began before and did not confirm itself; or it did, and the cut came before this file was removed.
    remove_file("trying");
  }
  if (is_genuine(slot, booted)) return slot;
  if (!is_genuine(other, booted)) return 0;
  write_file("boot", &other, 1);
  return other;
}

void try_slot(char slot) { write_file("trying", slot == 'a' ? "a new" : "b new", 5); }

void confirm(char slot) {
  write_file("boot", &slot, 1);
  cut_at_step("confirming");
  remove_file("trying");
}

// The open image file of a slot that is to get the image of this manifest: what it has of it already stays.
int prepare_slot(char slot, const char *text, size_t length) {
  char present[SIGNED_MAX + 1];
  struct stat status;
  bool is_same = read_file(name_of(slot, true), present, sizeof present) == length && memcmp(present, text, length) == 0;
  int file = openat(folder, name_of(slot, false), O_RDWR | O_CREAT, 0644);
  must(file >= 0 && fstat(file, &status) == 0, "slot");
  if (!is_same) {
    // Emptied first: bytes of another image must not count as a part of this one.
    must(ftruncate(file, 0) == 0 && fsync(file) == 0, "slot");
    cut_at_step("emptied");
    write_file(name_of(slot, true), text, length);
  }
  return file;
}
