// One update, from its offer to the switch of the slots: first the manifest, then the image from where its file ends.
// Every byte may be hostile until the signature and the hash are right.
#include "device.h"

#include <curl/curl.h>
#include <mbedtls/base64.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 10000
#define PAUSE_MS 60000
#define TRIES_MAX 8
#define GET_MAX 600
// An image of 16 MiB needs fewer requests of this size than the service takes in a minute.
#define RANGE_MAX (32 * 1024L)
#define URL_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

static enum { IDLE, MANIFEST, IMAGE } phase;
static char url[65], hash[17], text[SIGNED_MAX];
static manifest_t manifest;
static int file = -1, tries;
// Bytes of the manifest, or of the image, that are here; and those that are here after the next answer.
static long have, asked_end, next_at;
static bool is_resumed;

static char other_slot(void) { return self.slot == 'a' ? 'b' : 'a'; }

static void wait_for(long ms, int new_tries) {
  const char *wait_ms = setting("WAIT_MS", NULL);
  next_at = now_ms() + (wait_ms == NULL ? ms : atol(wait_ms));
  tries = new_tries;
}

static void end_update(void) {
  if (file >= 0) close(file);
  file = -1;
  phase = IDLE;
}

static void fail(const char *error) {
  printf("failed %s\n", error);
  publish("progress", 1, "{\"step\":\"failed\",\"error\":\"%s\"}", error);
  end_update();
}

// The service repeats an offer in each session, and before it has heard that the image runs. What the image is says its manifest.
void take_offer(const cJSON *json) {
  char new_hash[17], new_url[65];
  bool is_read = READ_TEXT(json, "hash", new_hash) && strlen(new_hash) == 16 && READ_TEXT(json, "url", new_url) &&
                 strncmp(new_url, "/f/", 3) == 0 && new_url[3 + strspn(new_url + 3, URL_CHARACTERS)] == '\0';
  if (!is_read || strncmp(self.booted.sha256, new_hash, 16) == 0) return;
  if (phase != IDLE && strcmp(url, new_url) == 0 && strcmp(hash, new_hash) == 0) return;
  end_update();
  strcpy(url, new_url);
  strcpy(hash, new_hash);
  have = next_at = tries = 0;
  phase = MANIFEST;
}

static const char *problem_of_manifest(void) {
  if (!read_manifest(text, (size_t)have, &manifest)) return "bad_signature";
  if (strcmp(manifest.product, self.product) != 0) return "other_product";
  if (strncmp(manifest.sha256, hash, 16) != 0) return "other_hash";
  if (compare_versions(manifest.version, self.booted.version) <= 0) return "version_not_newer";
  return compare_versions(manifest.minimum_version, self.booted.version) > 0 ? "below_minimum_version" : NULL;
}

static void take_manifest(const void *bytes, long count) {
  if (count > (long)sizeof text - have) return fail("bad_manifest");
  memcpy(text + have, bytes, (size_t)count);
  have += count;
  const char *end = memchr(text, '\n', (size_t)have);
  if (end == NULL || memchr(end + 1, '\n', (size_t)(text + have - end - 1)) == NULL) return;
  const char *problem = problem_of_manifest();
  if (problem != NULL) return fail(problem);
  file = prepare_slot(other_slot(), text, (size_t)have);
  cut_at_step("manifest");
  have = (long)lseek(file, 0, SEEK_END);
  if (have > manifest.size) have = ftruncate(file, 0);
  is_resumed = have > 0;
  next_at = 0;
  phase = IMAGE;
  printf("begin at=%ld\n", have);
  publish("progress", 1, "{\"step\":\"accepted\"}");
}

static void take_image(const void *bytes, long count) {
  long cut_at = atol(setting("CUT_AT", "0"));
  if (cut_at > have && cut_at < have + count) count = cut_at - have;
  if (write(file, bytes, (size_t)count) != count) return fail("slot_not_written");
  have += count;
  if (have == cut_at) raise(SIGKILL);
  if (have == asked_end) fsync(file);
  if (have == manifest.size) cut_at_step("last-byte");
}

// What does not fit is late, repeated or wrong: the next request is for the bytes that are missing.
static void take_part(bool is_manifest, long offset, const void *bytes, long count) {
  if (phase != (is_manifest ? MANIFEST : IMAGE) || offset != have || count <= 0) return;
  if (!is_manifest && count > asked_end - have) return;
  tries = 0;
  if (is_manifest) take_manifest(bytes, count);
  else take_image(bytes, count);
  if (have == asked_end) next_at = 0;
}

// In place of bytes.
static void take_refusal(bool is_gone, bool is_paused) {
  printf(is_gone ? "gone\n" : is_paused ? "paused\n" : "busy\n");
  if (is_gone) end_update();
  else wait_for(is_paused ? PAUSE_MS : BUSY_MS, 0);
}

void take_data(const cJSON *json) {
  char data[104], error[16];
  unsigned char bytes[80];
  size_t count;
  if (phase != MANIFEST && phase != IMAGE) return;
  if (READ_TEXT(json, "error", error)) {
    take_refusal(strcmp(error, "gone") == 0, strcmp(error, "paused") == 0);
  } else if (READ_TEXT(json, "data", data) && strlen(data) % 4 == 0 &&
             // mbedTLS drops what is left over of a text without its padding.
             mbedtls_base64_decode(bytes, sizeof bytes, &count, (const unsigned char *)data, strlen(data)) == 0) {
    take_part(cJSON_IsTrue(cJSON_GetObjectItem(json, "manifest")), read_count(json, "offset"), bytes, (long)count);
  }
}

// The manifest comes whole. What came counts, even if the connection breaks then.
static void ask_http(bool is_manifest) {
  static CURL *http;
  static char body[RANGE_MAX + 1];
  char address[512], range[48], wanted[80];
  struct curl_header *header;
  long status = 0;
  if (http == NULL) http = curl_easy_init();
  if (is_manifest) have = 0;
  // What is longer than it does not fit, and ends the answer.
  FILE *stream = fmemopen(body, sizeof body, "w");
  setvbuf(stream, NULL, _IONBF, 0);
  snprintf(address, sizeof address, "%s%s%s", setting("API", ""), url, is_manifest ? "/manifest" : "");
  snprintf(range, sizeof range, "%ld-%ld", have, asked_end - 1);
  snprintf(wanted, sizeof wanted, "bytes %s/%ld", range, manifest.size);
  curl_easy_setopt(http, CURLOPT_URL, address);
  curl_easy_setopt(http, CURLOPT_RANGE, is_manifest ? NULL : range);
  curl_easy_setopt(http, CURLOPT_WRITEDATA, stream);
  if (setting("CA", NULL) != NULL) curl_easy_setopt(http, CURLOPT_CAINFO, setting("CA", NULL));
  // Below the keep-alive time: MQTT waits meanwhile.
  curl_easy_setopt(http, CURLOPT_TIMEOUT, 30L);
  curl_easy_perform(http);
  curl_easy_getinfo(http, CURLINFO_RESPONSE_CODE, &status);
  long length = ftell(stream);
  fclose(stream);
  bool is_range = status == 206 && curl_easy_header(http, "Content-Range", 0, CURLH_HEADER, -1, &header) == CURLHE_OK &&
                  strcmp(header->value, wanted) == 0;
  if (status == 404 || status == 410 || status == 409 || status == 429) take_refusal(status == 404 || status == 410, status == 409);
  else if (is_manifest ? status == 200 : is_range) take_part(is_manifest, have, body, length);
}

static void ask(void) {
  bool is_manifest = phase == MANIFEST, is_over_mqtt = setting("OVER_MQTT", NULL) != NULL;
  if (tries == TRIES_MAX) return fail("no_answer");
  asked_end = have + (is_over_mqtt ? GET_MAX : RANGE_MAX);
  if (!is_manifest && asked_end > manifest.size) asked_end = manifest.size;
  wait_for(ANSWER_MS, tries + 1);
  if (!is_over_mqtt) return ask_http(is_manifest);
  publish("get", 0, "{\"offset\":%ld,\"length\":%ld%s}", have, asked_end - have, is_manifest ? ",\"manifest\":true" : "");
}

static void finish_image(void) {
  if (!is_genuine(other_slot(), &manifest)) {
    have = ftruncate(file, 0);
    // A power cut may have torn what lay here before this start. Then the whole image comes again, once.
    if (!is_resumed) fail("wrong_sha256");
    is_resumed = false;
    return;
  }
  cut_at_step("verified");
  publish("progress", 1, "{\"step\":\"downloaded\"}");
  cut_at_step("before-switch");
  try_slot(other_slot());
  cut_at_step("after-switch");
  publish("progress", 1, "{\"step\":\"restarting\"}");
  restart();
}

// True if there is more to do at once.
bool step_update(void) {
  if (phase == IDLE || now_ms() < next_at) return false;
  if (phase == IMAGE && have == manifest.size) finish_image();
  else ask();
  return phase != IDLE && now_ms() >= next_at;
}
