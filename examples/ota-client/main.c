// A device with two slots that takes its firmware from Latchwork. Each start of this program is a boot: see README.md.
// The files of its folder: a power cut may come between any two calls, so each small one is replaced at once.
//   key.pem          the public key that the device trusts, of P-256
//   slot-a, slot-b   images: one runs, the other takes the next one. slot-a.manifest has manifest and signature, a line each
//   boot             "a-": slot a boots. "a?": the next start tries slot b, once
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <err.h>
#include <fcntl.h>
#include <mbedtls/base64.h>
#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <mosquitto.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

enum { NOT_CONFIRMED = 1, WRONG_USAGE = 2, NO_IMAGE = 3, RESTART = 75 };
enum { TRIAL_S = 600, RECONNECT_S = 5, HTTP_S = 30, KEEP_ALIVE_S = 60, TRIES_MAX = 8 };
enum { SIGNATURE_LENGTH = 88, MANIFEST_MAX = 1024, SIGNED_MAX = MANIFEST_MAX + 1 + SIGNATURE_LENGTH + 1 };
// The largest image needs fewer parts over HTTP than the service takes in a minute. Data over MQTT is in base64.
enum { IMAGE_MAX = 16 * 1024 * 1024, HTTP_PART_MAX = 32 * 1024, MQTT_PART_MAX = 600, DATA_LENGTH_MAX = 100 };
#define SHA256 mbedtls_md_info_from_type(MBEDTLS_MD_SHA256)

static const char *const images[] = {"slot-a", "slot-b"}, *const manifests[] = {"slot-a.manifest", "slot-b.manifest"};
static mbedtls_pk_context key;
static char key_id[17], product[65], device[65];
static int slot;
static cJSON *booted;
static CURL *http;
static struct mosquitto *mqtt;
static int unconfirmed;
static bool is_trial, is_informed, is_over_mqtt;
// What the service offered last.
static enum { IDLE, OFFERED, RUNNING } update;
static char hash[17], url[65];
// Of the manifest or the image, from `begin` on: `count` bytes are here, `asked` after the next answer, `size` are wanted.
static struct part {
  bool is_manifest;
  size_t begin, count, asked, size;
  enum { NONE, GONE, PAUSED } refusal;
} part;
static unsigned char bytes[HTTP_PART_MAX];

static const char *setting(const char *name, const char *otherwise) { return getenv(name) ?: otherwise; }

static const char *text_of(const cJSON *json, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name)) ?: "";
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_newer(const char *version, const char *than) {
  unsigned left[4] = {0}, right[4] = {0}, at = 0;
  sscanf(version, "%5u.%5u.%5u.%5u", &left[0], &left[1], &left[2], &left[3]);
  sscanf(than, "%5u.%5u.%5u.%5u", &right[0], &right[1], &right[2], &right[3]);
  while (at < 3 && left[at] == right[at]) at++;
  return left[at] > right[at];
}

static void write_hex(const unsigned char *from, size_t count, char *hex) {
  for (size_t i = 0; i < count; i++) sprintf(hex + 2 * i, "%02x", from[i]);
}

// Up to `room` bytes; 0 if there is no such file.
static size_t read_file(const char *path, void *to, size_t room) {
  FILE *file = fopen(path, "r");
  size_t count = file == NULL ? 0 : fread(to, 1, room, file);
  if (file != NULL) fclose(file);
  return count;
}

// Answers the size of the file then. A device that cannot keep its state must not go on.
static size_t write_file(const char *path, int mode, const void *from, size_t count) {
  int file = open(path, O_WRONLY | O_CREAT | mode, 0644);
  bool is_written = file >= 0 && write(file, from, count) == (ssize_t)count && fsync(file) == 0;
  off_t size = lseek(file, 0, SEEK_END);
  if (!is_written || close(file) != 0) err(EXIT_FAILURE, "%s", path);
  return (size_t)size;
}

static void replace_file(const char *path, const void *from, size_t count) {
  int folder = open(".", O_RDONLY);
  write_file("new", O_TRUNC, from, count);
  if (rename("new", path) != 0 || fsync(folder) != 0 || close(folder) != 0) err(EXIT_FAILURE, "%s", path);
}

static void read_key(void) {
  unsigned char der[1024], digest[32];
  mbedtls_pk_init(&key);
  if (mbedtls_pk_parse_public_keyfile(&key, "key.pem") != 0 || !mbedtls_pk_can_do(&key, MBEDTLS_PK_ECDSA)) return;
  // Written at the end of the buffer.
  int length = mbedtls_pk_write_pubkey_der(&key, der, sizeof der);
  mbedtls_md(SHA256, der + sizeof der - length, (size_t)length, digest);
  write_hex(digest, 8, key_id);
}

// NULL if the trusted key did not sign it: nothing of it is read before that is known.
static cJSON *read_manifest(const void *text, size_t length) {
  const void *end = memchr(text, '\n', length);
  size_t line = end == NULL ? 0 : (size_t)(end - text), count = 0;
  unsigned char digest[32], raw[66], der[72] = {[0] = 0x30, 70, 0x02, 33, 0, [37] = 0x02, 33, 0};
  if (end == NULL || length != line + 1 + SIGNATURE_LENGTH + 1) return NULL;
  mbedtls_base64_decode(raw, sizeof raw, &count, end + 1, SIGNATURE_LENGTH);
  // mbedTLS takes the two numbers of a signature in DER.
  memcpy(der + 5, raw, 32);
  memcpy(der + 40, raw + 32, 32);
  mbedtls_md(SHA256, text, line, digest);
  bool is_signed = count == 64 && mbedtls_pk_verify(&key, MBEDTLS_MD_SHA256, digest, sizeof digest, der, sizeof der) == 0;
  return is_signed ? cJSON_ParseWithLength(text, line) : NULL;
}

// The manifest, if the trusted key signed it and the image is the one that it names. Otherwise NULL.
static cJSON *read_slot(int of) {
  unsigned char digest[32];
  char text[SIGNED_MAX + 1], hex[65] = "no image";
  cJSON *manifest = read_manifest(text, read_file(manifests[of], text, sizeof text));
  if (mbedtls_md_file(SHA256, images[of], digest) == 0) write_hex(digest, sizeof digest, hex);
  if (strcmp(text_of(manifest, "sha256"), hex) == 0) return manifest;
  cJSON_Delete(manifest);
  return NULL;
}

static void keep_slot(int kept) { replace_file("boot", kept == 0 ? "a-" : "b-", 2); }

// Chooses the slot that this start runs. `booted` stays NULL if neither is genuine.
static void boot(void) {
  char state[2] = "";
  read_file("boot", state, sizeof state);
  int kept = state[0] == 'b' ? 1 : 0;
  is_trial = state[1] == '?';
  // The new image runs once, unless it confirms itself.
  if (is_trial) keep_slot(kept);
  slot = is_trial ? 1 - kept : kept;
  booted = read_slot(slot);
  if (booted != NULL) return;
  is_trial = false;
  slot = 1 - slot;
  booted = read_slot(slot);
  keep_slot(slot);
}

static const char *topic_of(const char *name) {
  static char topic[192];
  snprintf(topic, sizeof topic, "/sys/%s/%s/thing/ota/%s", product, device, name);
  return topic;
}

__attribute__((format(printf, 2, 3))) static void publish(const char *name, const char *format, ...) {
  char payload[160];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(payload, sizeof payload, format, values);
  va_end(values);
  if (mosquitto_publish(mqtt, NULL, topic_of(name), length, payload, 1, false) == MOSQ_ERR_SUCCESS) unconfirmed++;
}

static void on_connect(struct mosquitto *, void *, int code) {
  if (code != 0) return warnx("%s", mosquitto_connack_string(code));
  mosquitto_subscribe(mqtt, NULL, topic_of("upgrade"), 1);
  mosquitto_subscribe(mqtt, NULL, topic_of("data"), 1);
  publish("inform", "{\"version\":\"%s\",\"slot\":\"%c\",\"keys\":[\"%s\"]}", text_of(booted, "version"), 'a' + slot, key_id);
}

// The first one says that the service was reached: only this confirms a new image.
static void on_publish(struct mosquitto *, void *, int) {
  unconfirmed--;
  if (is_informed) return;
  if (is_trial) keep_slot(slot);
  is_trial = false;
  is_informed = true;
  alarm(0);
  puts("informed");
}

// What does not fit is late, repeated or wrong. mbedTLS drops what is left over of a text without its padding.
static void take_data(const cJSON *json) {
  const char *data = text_of(json, "data"), *error = text_of(json, "error");
  size_t length = strlen(data), count;
  if (strcmp(error, "gone") == 0) part.refusal = GONE;
  if (strcmp(error, "paused") == 0 || strcmp(error, "busy") == 0) part.refusal = PAUSED;
  if (cJSON_IsTrue(cJSON_GetObjectItem(json, "manifest")) != part.is_manifest || length > DATA_LENGTH_MAX || length % 4 != 0 ||
      cJSON_GetNumberValue(cJSON_GetObjectItem(json, "offset")) != (double)(part.begin + part.count) ||
      mbedtls_base64_decode(bytes + part.count, part.asked - part.count, &count, (const void *)data, length) != 0) return;
  part.count += count;
  bool has_both_lines = memchr(bytes, '\n', part.count) != memrchr(bytes, '\n', part.count);
  if (part.is_manifest && has_both_lines) part.asked = part.size = part.count;
}

// The service repeats an offer in each session, and before it has heard that the image runs.
static void take_offer(const cJSON *offer) {
  const char *new_hash = text_of(offer, "hash"), *new_url = text_of(offer, "url");
  int length = 0;
  sscanf(new_url, "/f/%*60[A-Za-z0-9_-]%n", &length);
  if (strlen(new_hash) != 16 || length == 0 || new_url[length] != '\0') return;
  if (update == RUNNING && strcmp(new_hash, hash) == 0 && strcmp(new_url, url) == 0) return;
  if (strcmp(text_of(booted, "version"), text_of(offer, "version")) == 0) return;
  strcpy(hash, new_hash);
  strcpy(url, new_url);
  update = OFFERED;
}

static void on_message(struct mosquitto *, void *, const struct mosquitto_message *message) {
  cJSON *json = cJSON_ParseWithLength(message->payload, (size_t)message->payloadlen);
  take_data(json);
  take_offer(json);
  cJSON_Delete(json);
}

static void serve_session(int ms) {
  if (mosquitto_loop(mqtt, ms, 1) == MOSQ_ERR_SUCCESS) return;
  is_informed = false;
  sleep(RECONNECT_S);
  mosquitto_reconnect(mqtt);
}

// What is longer than it was asked for does not fit, and ends the answer.
static size_t take_body(char *body, size_t, size_t count, void *) {
  size_t fitting = MIN(count, part.asked - part.count);
  memcpy(bytes + part.count, body, fitting);
  part.count += fitting;
  return fitting;
}

static void ask_http(void) {
  char address[512], range[48];
  struct curl_header *header;
  size_t before = part.count, begin;
  long status = 0;
  snprintf(address, sizeof address, "%s%s%s", setting("API", ""), url, part.is_manifest ? "/manifest" : "");
  snprintf(range, sizeof range, "%zu-%zu", part.begin + before, part.begin + part.asked - 1);
  curl_easy_setopt(http, CURLOPT_URL, address);
  curl_easy_setopt(http, CURLOPT_RANGE, part.is_manifest ? NULL : range);
  bool is_complete = curl_easy_perform(http) == CURLE_OK;
  curl_easy_getinfo(http, CURLINFO_RESPONSE_CODE, &status);
  part.refusal = status == 404 || status == 410 ? GONE : status == 409 || status == 429 ? PAUSED : NONE;
  bool is_range = status == 206 && curl_easy_header(http, "Content-Range", 0, CURLH_HEADER, -1, &header) == CURLHE_OK &&
                  sscanf(header->value, "bytes %zu-", &begin) == 1 && begin == part.begin + before;
  if (!is_complete || (part.is_manifest ? status != 200 : !is_range)) part.count = before;
  else if (part.is_manifest) part.asked = part.size = part.count;
}

static bool fail(const char *error) {
  publish("progress", "{\"step\":\"failed\",\"error\":\"%s\"}", error);
  return false;
}

// Gets the manifest, or `size` bytes of the image from `begin` on. False if the update ends here.
static bool fetch(bool is_manifest, size_t begin, size_t size) {
  part = (struct part){.is_manifest = is_manifest, .begin = begin, .size = size};
  for (int tries = 0; part.count < part.size; tries++) {
    size_t at = part.count;
    if (tries == TRIES_MAX) return fail("no_answer");
    part.refusal = NONE;
    part.asked = is_over_mqtt ? MIN(at + MQTT_PART_MAX, size) : size;
    const char *more = is_manifest ? ",\"manifest\":true" : "";
    if (is_over_mqtt) publish("get", "{\"offset\":%zu,\"length\":%zu%s}", begin + at, part.asked - at, more);
    else ask_http();
    // An update goes on only in a session.
    long end = now_ms() + atol(setting("WAIT_MS", "60000"));
    do serve_session(part.count == part.asked ? 0 : 100);
    while (!is_informed || (part.count < part.asked && part.refusal != GONE && now_ms() < end));
    if (part.refusal != NONE) puts(part.refusal == GONE ? "gone" : "paused");
    if (part.refusal == GONE || update == OFFERED) return false;
    if (part.refusal == PAUSED || part.count > at) tries = 0;
  }
  return true;
}

static const char *problem_of(const cJSON *manifest) {
  double size = cJSON_GetNumberValue(cJSON_GetObjectItem(manifest, "size"));
  if (manifest == NULL) return part.count > SIGNED_MAX ? "bad_manifest" : "bad_signature";
  if (strcmp(text_of(manifest, "product"), product) != 0) return "other_product";
  if (strncmp(text_of(manifest, "sha256"), hash, 16) != 0) return "other_hash";
  if (!(size >= 1 && size <= IMAGE_MAX)) return "bad_manifest";
  if (!is_newer(text_of(manifest, "version"), text_of(booted, "version"))) return "version_not_newer";
  return is_newer(text_of(manifest, "minimumVersion"), text_of(booted, "version")) ? "below_minimum_version" : NULL;
}

// From the offer to the switch. True if the other slot is to be started.
static bool run_update(void) {
  int other = 1 - slot;
  char present[SIGNED_MAX];
  update = RUNNING;
  if (!fetch(true, 0, sizeof bytes)) return false;
  cJSON *manifest = read_manifest(bytes, part.count);
  const char *problem = problem_of(manifest);
  size_t size = problem == NULL ? (size_t)cJSON_GetObjectItem(manifest, "size")->valuedouble : 0;
  cJSON_Delete(manifest);
  if (problem != NULL) return fail(problem);
  bool is_same = read_file(manifests[other], present, sizeof present) == part.count && memcmp(present, bytes, part.count) == 0;
  // Bytes of another image must not count as a part of this one: they go before the manifest comes.
  size_t have = write_file(images[other], is_same ? O_APPEND : O_TRUNC, "", 0);
  replace_file(manifests[other], bytes, part.count);
  printf("begin at=%zu\n", have);
  publish("progress", "{\"step\":\"accepted\"}");
  bool is_resumed = have > 0;
  while (have < size) {
    if (!fetch(false, have, MIN(is_over_mqtt ? MQTT_PART_MAX : HTTP_PART_MAX, size - have))) return false;
    have = write_file(images[other], O_APPEND, bytes, part.count);
  }
  manifest = read_slot(other);
  cJSON_Delete(manifest);
  if (manifest == NULL) {
    write_file(images[other], O_TRUNC, "", 0);
    // A power cut may have torn what lay here before this start. Then the whole image comes again.
    update = is_resumed ? OFFERED : RUNNING;
    return is_resumed ? false : fail("wrong_sha256");
  }
  publish("progress", "{\"step\":\"downloaded\"}");
  replace_file("boot", slot == 0 ? "a?" : "b?", 2);
  publish("progress", "{\"step\":\"restarting\"}");
  return true;
}

int main(void) {
  const char *name = setting("MQTT_NAME", ""), *ca = getenv("CA");
  char behaviour[16] = "";
  setlinebuf(stdout);
  is_over_mqtt = getenv("OVER_MQTT") != NULL;
  if (sscanf(name, "%64[^&]&%64s", product, device) != 2) errx(WRONG_USAGE, "MQTT_NAME has to be productKey&deviceId");
  read_key();
  boot();
  if (booted == NULL) errx(NO_IMAGE, "no slot holds an image that key.pem signed");
  printf("boot slot=%c version=%s trying=%d\n", 'a' + slot, text_of(booted, "version"), is_trial);
  // The watchdog: an image on trial that cannot reach the service gives way to the old one.
  if (is_trial) alarm(TRIAL_S);
  // What this image does: its first line says it.
  read_file(images[slot], behaviour, sizeof behaviour - 1);
  if (strncmp(behaviour, "crashes\n", 8) == 0) abort();
  if (strncmp(behaviour, "never-confirms\n", 15) == 0) return NOT_CONFIRMED;
  http = curl_easy_init();
  curl_easy_setopt(http, CURLOPT_WRITEFUNCTION, take_body);
  // Below KEEP_ALIVE_S: MQTT waits meanwhile.
  curl_easy_setopt(http, CURLOPT_TIMEOUT, (long)HTTP_S);
  mosquitto_lib_init();
  mqtt = mosquitto_new(name, true, NULL);
  mosquitto_username_pw_set(mqtt, name, setting("MQTT_PASSWORD", ""));
  if (ca != NULL) mosquitto_tls_set(mqtt, ca, NULL, NULL, NULL, NULL);
  mosquitto_connect_callback_set(mqtt, on_connect);
  mosquitto_publish_callback_set(mqtt, on_publish);
  mosquitto_message_callback_set(mqtt, on_message);
  mosquitto_connect(mqtt, setting("MQTT_HOST", "127.0.0.1"), atoi(setting("MQTT_PORT", "1883")), KEEP_ALIVE_S);
  do {
    if (update == RUNNING) update = IDLE;
    serve_session(100);
  } while (!is_informed || update != OFFERED || !run_update());
  // The service is to hear all that was said.
  for (int i = 0; unconfirmed > 0 && i < 50; i++) serve_session(100);
  return RESTART;
}
