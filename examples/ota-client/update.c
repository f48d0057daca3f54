// One update, from its offer to the switch of the slots: the manifest first, then the image where its file ends, over HTTP or MQTT.
// Every byte may be hostile until the signature and the hash are right.
#include "device.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <mbedtls/base64.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAUSE_MS 60000
#define ANSWER_MS 10000
#define TRIES_MAX 8
// An image of 16 MiB then needs fewer requests than the service takes in a minute.
#define RANGE_SIZE (32 * 1024L)
#define GET_LENGTH 600
#define DATA_MAX 75
#define SYNC_EVERY 4096
#define URL_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

static CURL *http;
static enum { IDLE, MANIFEST, IMAGE, RESTARTING } phase;
static char version[24], hash[17], url[65];
static long size;
static manifest_t manifest;
static char text[SIGNED_MAX];
static size_t text_length;
static int file = -1, tenth, tries;
static long have, resumed_at, asked_end, next_at, range_end, written;
static bool is_range_right;

static void report(const char *step, const char *more) {
  char payload[128];
  snprintf(payload, sizeof payload, "{\"step\":\"%s\"%s}", step, more);
  publish("progress", payload, 1);
}

static void report_percent(void) {
  char more[32];
  snprintf(more, sizeof more, ",\"percent\":%d", tenth * 10);
  report("downloading", more);
}

static void postpone(long ms) { next_at = now_ms() + (options.wait_ms > 0 ? options.wait_ms : ms); }

void close_update(void) {
  if (file >= 0) close(file);
  file = -1;
  phase = IDLE;
}

static void fail(const char *error) {
  char more[64];
  snprintf(more, sizeof more, ",\"error\":\"%s\"", error);
  printf("failed %s\n", error);
  report("failed", more);
  close_update();
}

static void end_update(void) {
  printf("gone\n");
  close_update();
}

static const char *problem_of_manifest(void) {
  if (!read_manifest(text, text_length, &manifest)) return "bad_signature";
  if (strcmp(manifest.product, self.product) != 0) return "other_product";
  if (strcmp(manifest.version, version) != 0) return "other_version";
  if (strncmp(manifest.sha256, hash, 16) != 0) return "other_hash";
  if (manifest.size != size) return "other_size";
  return compare_versions(manifest.minimum_version, self.booted.version) > 0 ? "below_minimum_version" : NULL;
}

static void begin_image(void) {
  struct stat status;
  const char *problem = problem_of_manifest();
  if (problem != NULL) {
    fail(problem);
    return;
  }
  file = prepare_slot(self.slot == 'a' ? 'b' : 'a', text, text_length);
  cut_at_step("manifest");
  have = fstat(file, &status) == 0 ? (long)status.st_size : 0;
  if (have > size) have = ftruncate(file, 0);
  resumed_at = have;
  tenth = (int)(have * 10 / size);
  phase = IMAGE;
  next_at = 0;
  printf("begin at=%ld\n", have);
  report("accepted", "");
  report_percent();
}

static void take_manifest(const unsigned char *bytes, size_t count) {
  if (count == 0 || count > sizeof text - text_length) {
    fail("bad_manifest");
    return;
  }
  memcpy(text + text_length, bytes, count);
  text_length += count;
  tries = 0;
  const char *end = memchr(text, '\n', text_length);
  if (end != NULL && memchr(end + 1, '\n', text_length - (size_t)(end + 1 - text)) != NULL) begin_image();
}

static void take_image(const unsigned char *bytes, size_t count) {
  long before = have;
  while (count > 0) {
    size_t part = count;
    if (options.cut_at > 0 && (size_t)(options.cut_at - written) < part) part = (size_t)(options.cut_at - written);
    if (pwrite(file, bytes, part, have) != (ssize_t)part) {
      fail("slot_not_written");
      return;
    }
    bytes += part;
    count -= part;
    have += (long)part;
    written += (long)part;
    if (written == options.cut_at) raise(SIGKILL);
  }
  tries = 0;
  if (before / SYNC_EVERY != have / SYNC_EVERY || have == size) fsync(file);
  if (have == size) cut_at_step("last-byte");
  if (have * 10 / size == tenth || have == size) return;
  tenth = (int)(have * 10 / size);
  report_percent();
}

static void finish_image(void) {
  char other = self.slot == 'a' ? 'b' : 'a';
  if (!is_genuine(other, &manifest)) {
    // A power cut may have torn what lay here before this start. Then the whole image comes again, once.
    bool is_torn = resumed_at > 0;
    resumed_at = have = tenth = 0;
    if (ftruncate(file, 0) != 0 || !is_torn) fail("wrong_sha256");
    return;
  }
  cut_at_step("verified");
  report("downloaded", "");
  cut_at_step("before-switch");
  try_slot(other);
  cut_at_step("after-switch");
  report("restarting", "");
  close_update();
  phase = RESTARTING;
  postpone(BUSY_MS);
}

static size_t on_header(char *bytes, size_t one, size_t count, void *unused) {
  (void)one, (void)unused;
  char line[96];
  long from, to, total;
  snprintf(line, sizeof line, "%.*s", (int)count, bytes);
  if (strncasecmp(line, "content-range:", 14) == 0)
    is_range_right = sscanf(line + 14, " bytes %ld-%ld/%ld", &from, &to, &total) == 3 && from == have &&
                     to == range_end && total == size;
  return count;
}

// Nothing of an answer that was not asked for is kept: 0 ends the transfer.
static size_t on_body(char *bytes, size_t one, size_t count, void *unused) {
  (void)one, (void)unused;
  long status = 0;
  curl_easy_getinfo(http, CURLINFO_RESPONSE_CODE, &status);
  if (phase == MANIFEST && status == 200) take_manifest((unsigned char *)bytes, count);
  else if (phase == IMAGE && status == 206 && is_range_right && (long)count <= range_end + 1 - have)
    take_image((unsigned char *)bytes, count);
  else return 0;
  return phase == IDLE ? 0 : count;
}

static void fetch(void) {
  char address[512], range[48], if_range[96], error[24];
  bool is_image = phase == IMAGE;
  struct curl_slist *headers = NULL;
  snprintf(address, sizeof address, "%s%s%s", options.api, url, is_image ? "" : "/manifest");
  if (is_image) {
    range_end = (size - have > RANGE_SIZE ? have + RANGE_SIZE : size) - 1;
    snprintf(range, sizeof range, "%ld-%ld", have, range_end);
    snprintf(if_range, sizeof if_range, "If-Range: \"%s\"", manifest.sha256);
    headers = curl_slist_append(NULL, if_range);
  }
  text_length = is_image ? text_length : 0;
  is_range_right = false;
  curl_easy_setopt(http, CURLOPT_URL, address);
  curl_easy_setopt(http, CURLOPT_RANGE, is_image ? range : NULL);
  curl_easy_setopt(http, CURLOPT_HTTPHEADER, headers);
  CURLcode result = curl_easy_perform(http);
  curl_slist_free_all(headers);
  long status = 0;
  curl_off_t wait = 0;
  curl_easy_getinfo(http, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(http, CURLINFO_RETRY_AFTER, &wait);
  if (phase == IDLE) return;
  if (status == 404 || status == 410) {
    end_update();
  } else if (status == 409 || status == 429 || status == 503) {
    postpone(wait > 0 && wait < 3600 ? (long)wait * 1000 : PAUSE_MS);
  } else if (result == CURLE_OK && (status == 200 || status == 206)) {
    next_at = 0;
  } else if (++tries > TRIES_MAX) {
    snprintf(error, sizeof error, "http_%ld", status);
    fail(error);
  } else {
    postpone(BUSY_MS << tries);
  }
}

static void ask(void) {
  char payload[96];
  long offset = phase == IMAGE ? have : (long)text_length;
  asked_end = offset + GET_LENGTH;
  snprintf(payload, sizeof payload, "{\"offset\":%ld,\"length\":%d%s}", offset, GET_LENGTH,
           phase == IMAGE ? "" : ",\"manifest\":true");
  if (++tries > TRIES_MAX) {
    fail("no_answer");
    return;
  }
  publish("get", payload, 0);
  postpone(ANSWER_MS);
}

static bool copy_text(const cJSON *json, const char *name, char *copy, size_t room) {
  const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
  if (value == NULL || strlen(value) >= room) return false;
  strcpy(copy, value);
  return true;
}

// -1 if it is no number that counts bytes of an image.
static long count_of(const cJSON *json, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
  bool is_count = cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= IMAGE_MAX;
  return is_count ? (long)value->valuedouble : -1;
}

static void take_offer(const cJSON *json) {
  char new_version[24], new_hash[17], new_url[65];
  bool is_read = copy_text(json, "version", new_version, sizeof new_version) && is_version(new_version) &&
                 copy_text(json, "hash", new_hash, sizeof new_hash) && strlen(new_hash) == 16 &&
                 copy_text(json, "url", new_url, sizeof new_url) && strncmp(new_url, "/f/", 3) == 0 &&
                 new_url[3 + strspn(new_url + 3, URL_CHARACTERS)] == '\0';
  // The service repeats an offer in each session, and before it has heard that the image runs.
  if (!is_read || phase == RESTARTING || strncmp(self.booted.sha256, new_hash, 16) == 0) return;
  strcpy(url, new_url);
  if (phase != IDLE && strcmp(version, new_version) == 0 && strcmp(hash, new_hash) == 0) return;
  close_update();
  strcpy(version, new_version);
  strcpy(hash, new_hash);
  size = count_of(json, "size");
  text_length = 0;
  next_at = tries = 0;
  phase = MANIFEST;
  if (compare_versions(version, self.booted.version) <= 0) fail("version_not_newer");
  else if (size < 1) fail("bad_size");
}

static void take_data(const cJSON *json) {
  char data[104], error[16];
  unsigned char bytes[80];
  size_t count;
  bool is_image = phase == IMAGE;
  if (!is_image && phase != MANIFEST) return;
  if (copy_text(json, "error", error, sizeof error)) {
    tries = 0;
    if (strcmp(error, "paused") == 0) postpone(PAUSE_MS);
    else if (strcmp(error, "busy") == 0) postpone(BUSY_MS);
    else if (strcmp(error, "gone") == 0) end_update();
    else fail("range");
    return;
  }
  long offset = is_image ? have : (long)text_length;
  // What does not fit here is late, repeated or wrong. The next get asks for the bytes that are missing.
  if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "manifest")) == is_image) return;
  if (count_of(json, "offset") != offset || !copy_text(json, "data", data, sizeof data)) return;
  // mbedTLS drops what is left over of a text without its padding.
  if (strlen(data) % 4 != 0) return;
  if (mbedtls_base64_decode(bytes, sizeof bytes, &count, (const unsigned char *)data, strlen(data)) != 0) return;
  if (count > DATA_MAX || (is_image && (long)count > size - have)) return;
  if (is_image) take_image(bytes, count);
  else take_manifest(bytes, count);
  if (offset + (long)count >= asked_end || have == size) next_at = 0;
}

// `name` is the last word of the topic.
void take_message(const char *name, const char *payload, size_t length) {
  cJSON *json = cJSON_ParseWithLength(payload, length);
  if (strcmp(name, "upgrade") == 0) take_offer(json);
  if (strcmp(name, "data") == 0) take_data(json);
  cJSON_Delete(json);
}

void step_update(void) {
  if (phase == IMAGE && have == size) finish_image();
  else if (options.is_over_mqtt) ask();
  else fetch();
}

// How long until `step_update` has something to do; over a second if nothing is under way.
long ms_until_step(void) { return phase == IDLE ? 10000 : next_at - now_ms(); }

bool is_restarting(void) { return phase == RESTARTING; }

void open_http(void) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  http = curl_easy_init();
  if (options.ca != NULL) curl_easy_setopt(http, CURLOPT_CAINFO, options.ca);
  curl_easy_setopt(http, CURLOPT_NOSIGNAL, 1L);
  // Below the keep-alive time: MQTT waits meanwhile.
  curl_easy_setopt(http, CURLOPT_TIMEOUT, 30L);
  curl_easy_setopt(http, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(http, CURLOPT_WRITEFUNCTION, on_body);
}

void close_http(void) {
  curl_easy_cleanup(http);
  curl_global_cleanup();
}
