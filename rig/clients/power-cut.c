// Linked around the calls by which the device of examples/ota-client changes its files: its power fails where a test wants it.
//   CUT_AFTER   after so many of them     CUT_AT   after this byte of an image
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t __real_write(int file, const void *from, size_t count);
int __real_rename(const char *from, const char *to);

static long number(const char *name) { return atol(getenv(name) ?: "0"); }

static void note_change(void) {
  static long changes;
  if (++changes == number("CUT_AFTER")) raise(SIGKILL);
}

ssize_t __wrap_write(int file, const void *from, size_t count) {
  char link[32], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof path - 1) < 0) abort();
  long kept = number("CUT_AT") - lseek(file, 0, SEEK_END);
  bool is_cut = strstr(path, "/slot-") != NULL && kept > 0 && kept <= (long)count;
  ssize_t written = __real_write(file, from, is_cut ? (size_t)kept : count);
  if (is_cut) raise(SIGKILL);
  note_change();
  return written;
}

int __wrap_rename(const char *from, const char *to) {
  int result = __real_rename(from, to);
  note_change();
  return result;
}
