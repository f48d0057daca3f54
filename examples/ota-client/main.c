// A device with two slots that takes its firmware from Latchwork. Each start of this program is a boot: see README.md.
#include "device.h"

#include <mosquitto.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NOT_CONFIRMED = 1, WRONG_USAGE = 2, NO_IMAGE = 3, RESTART = 75 };
// A new image that cannot connect for so long gives way to the old one.
#define TRIAL_MS 600000

struct self self;
static struct mosquitto *mqtt;
static bool is_trying, is_informed;
static int inform_id, sent_id, taken_id;

const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value == NULL ? otherwise : value;
}

long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void cut_at_step(const char *step) {
  if (strcmp(setting("CUT_STEP", ""), step) == 0) raise(SIGKILL);
}

static char *write_topic(char topic[192], const char *name) {
  snprintf(topic, 192, "/sys/%s/%s/thing/ota/%s", self.product, self.device, name);
  return topic;
}

void publish(const char *name, int qos, const char *format, ...) {
  char topic[192], payload[160];
  va_list values;
  va_start(values, format);
  vsnprintf(payload, sizeof payload, format, values);
  va_end(values);
  mosquitto_publish(mqtt, &sent_id, write_topic(topic, name), (int)strlen(payload), payload, qos, false);
}

// Not before the service has all that was said.
void restart(void) {
  for (long started_at = now_ms(); taken_id != sent_id && now_ms() - started_at < BUSY_MS;) mosquitto_loop(mqtt, 100, 1);
  exit(RESTART);
}

static void on_connect(struct mosquitto *, void *, int code) {
  char upgrade[192], data[192], *topics[] = {write_topic(upgrade, "upgrade"), write_topic(data, "data")};
  if (code == 0) mosquitto_subscribe_multiple(mqtt, NULL, 2, topics, 1, 0, NULL);
  else printf("not connected: %s\n", mosquitto_connack_string(code));
}

static void on_subscribe(struct mosquitto *, void *, int, int, const int *) {
  publish("inform", 1, "{\"version\":\"%s\",\"slot\":\"%c\",\"keys\":[%s]}", self.booted.version, self.slot, key_ids);
  inform_id = sent_id;
}

static void on_publish(struct mosquitto *, void *, int id) {
  taken_id = id;
  if (id != inform_id || is_informed) return;
  is_informed = true;
  if (is_trying) confirm_slot(self.slot);
  if (is_trying) cut_at_step("confirmed");
  is_trying = false;
  printf("informed\n");
}

static void on_message(struct mosquitto *, void *, const struct mosquitto_message *message) {
  const char *name = strrchr(message->topic, '/');
  cJSON *json = message->payloadlen > 256 ? NULL : cJSON_ParseWithLength(message->payload, (size_t)message->payloadlen);
  if (name != NULL && strcmp(name, "/upgrade") == 0) take_offer(json);
  if (name != NULL && strcmp(name, "/data") == 0) take_data(json);
  cJSON_Delete(json);
}

// What this image does: its first line says it.
static void run_image(void) {
  char begin[16] = "";
  read_file(image_of(self.slot), begin, sizeof begin - 1);
  if (strncmp(begin, "crashes\n", 8) == 0) abort();
  if (strncmp(begin, "never-confirms\n", 15) == 0) exit(NOT_CONFIRMED);
}

static void connect_mqtt(const char *name) {
  mosquitto_lib_init();
  mqtt = mosquitto_new(name, true, NULL);
  mosquitto_username_pw_set(mqtt, name, setting("MQTT_PASSWORD", ""));
  if (setting("CA", NULL) != NULL) mosquitto_tls_set(mqtt, setting("CA", NULL), NULL, NULL, NULL, NULL);
  mosquitto_connect_callback_set(mqtt, on_connect);
  mosquitto_subscribe_callback_set(mqtt, on_subscribe);
  mosquitto_publish_callback_set(mqtt, on_publish);
  mosquitto_message_callback_set(mqtt, on_message);
  mosquitto_connect(mqtt, setting("MQTT_HOST", "127.0.0.1"), atoi(setting("MQTT_PORT", "1883")), 60);
}

int main(void) {
  const char *name = setting("MQTT_NAME", "");
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (sscanf(name, "%64[^&]&%64s", self.product, self.device) != 2) {
    fprintf(stderr, "MQTT_NAME has to be productKey&deviceId, the clientId of the activation: see README.md\n");
    return WRONG_USAGE;
  }
  self.slot = load_keys() ? boot_slot(&self.booted, &is_trying) : 0;
  if (self.slot == 0) {
    fprintf(stderr, "no slot holds an image that key-1.pem to key-4.pem signed\n");
    return NO_IMAGE;
  }
  printf("boot slot=%c version=%s trying=%d\n", self.slot, self.booted.version, is_trying);
  run_image();
  connect_mqtt(name);
  for (long started_at = now_ms();;) {
    bool is_due = is_informed && step_update();
    if (is_trying && now_ms() - started_at > TRIAL_MS) return NOT_CONFIRMED;
    if (mosquitto_loop(mqtt, is_due ? 0 : 100, 1) == MOSQ_ERR_SUCCESS) continue;
    is_informed = false;
    usleep(BUSY_MS * 1000);
    mosquitto_reconnect(mqtt);
  }
}
