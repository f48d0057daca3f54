// A device with two slots that takes its firmware from Latchwork. Each start of this program is a boot: see README.md.
#include "device.h"

#include <getopt.h>
#include <mosquitto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, NOT_CONFIRMED = 1, WRONG_USAGE = 2, NO_IMAGE = 3, RESTART = 75 };
// A new image that cannot connect for so long gives way to the old one.
#define TRIAL_MS 600000

struct options options = {.state = ".", .host = "127.0.0.1", .port = 1883, .api = ""};
struct self self;
static struct mosquitto *mqtt;
static bool is_trying, is_informed;
static int inform_id, unsent;
static volatile sig_atomic_t is_ended;

long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void cut_at_step(const char *step) {
  if (options.cut_step != NULL && strcmp(options.cut_step, step) == 0) raise(SIGKILL);
}

static void write_topic(char topic[192], const char *name) {
  snprintf(topic, 192, "/sys/%s/%s/thing/ota/%s", self.product, self.device, name);
}

int publish(const char *name, const char *payload, int qos) {
  char topic[192];
  int id = 0;
  write_topic(topic, name);
  if (mosquitto_publish(mqtt, &id, topic, (int)strlen(payload), payload, qos, false) == MOSQ_ERR_SUCCESS) unsent++;
  return id;
}

static void on_connect(struct mosquitto *client, void *unused, int code) {
  (void)unused;
  char upgrade[192], data[192], *topics[] = {upgrade, data};
  if (code != 0) printf("not connected: %s\n", mosquitto_connack_string(code));
  if (code != 0) return;
  write_topic(upgrade, "upgrade");
  write_topic(data, "data");
  mosquitto_subscribe_multiple(client, NULL, 2, topics, 1, 0, NULL);
}

static void on_subscribe(struct mosquitto *client, void *unused, int id, int count, const int *granted) {
  (void)client, (void)unused, (void)id, (void)count, (void)granted;
  char payload[160];
  int length = snprintf(payload, sizeof payload, "{\"version\":\"%s\",\"slot\":\"%c\",\"keys\":[", self.booted.version, self.slot);
  for (int i = 0; key_id(i) != NULL; i++)
    length += snprintf(payload + length, sizeof payload - (size_t)length, "%s\"%s\"", i > 0 ? "," : "", key_id(i));
  snprintf(payload + length, sizeof payload - (size_t)length, "]}");
  inform_id = publish("inform", payload, 1);
}

static void on_publish(struct mosquitto *client, void *unused, int id) {
  (void)client, (void)unused;
  unsent--;
  if (id != inform_id || is_informed) return;
  is_informed = true;
  if (is_trying) confirm(self.slot);
  if (is_trying) cut_at_step("confirmed");
  is_trying = false;
  printf("informed\n");
}

static void on_disconnect(struct mosquitto *client, void *unused, int code) {
  (void)client, (void)unused, (void)code;
  is_informed = false;
}

static void on_message(struct mosquitto *client, void *unused, const struct mosquitto_message *message) {
  (void)client, (void)unused;
  const char *slash = strrchr(message->topic, '/');
  if (slash == NULL || message->payloadlen <= 0 || message->payloadlen > 256) return;
  take_message(slash + 1, message->payload, (size_t)message->payloadlen);
}

static void on_signal(int signal) {
  (void)signal;
  is_ended = 1;
}

static void read_options(int argc, char **argv) {
  static const struct option names[] = {
      {"state", 1, NULL, 's'},    {"name", 1, NULL, 'n'},    {"host", 1, NULL, 'h'},   {"port", 1, NULL, 'p'},
      {"api", 1, NULL, 'a'},      {"ca", 1, NULL, 'c'},      {"mqtt", 0, NULL, 'm'},   {"respawn", 0, NULL, 'r'},
      {"cut-step", 1, NULL, 'S'}, {"cut-at", 1, NULL, 'C'},  {"wait-ms", 1, NULL, 'w'}, {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    if (option == 's') options.state = optarg;
    else if (option == 'n') options.name = optarg;
    else if (option == 'h') options.host = optarg;
    else if (option == 'p') options.port = atoi(optarg);
    else if (option == 'a') options.api = optarg;
    else if (option == 'c') options.ca = optarg;
    else if (option == 'm') options.is_over_mqtt = true;
    else if (option == 'r') options.is_respawning = true;
    else if (option == 'S') options.cut_step = optarg;
    else if (option == 'C') options.cut_at = atol(optarg);
    else if (option == 'w') options.wait_ms = atol(optarg);
    else exit(WRONG_USAGE);
  }
  if (options.name != NULL && sscanf(options.name, "%64[^&]&%64s", self.product, self.device) == 2) return;
  fprintf(stderr, "--name productKey&deviceId is missing, the clientId of the activation: see README.md\n");
  exit(WRONG_USAGE);
}

// What this image does: its first line says it.
static void run_image(void) {
  char begin[16] = "";
  read_image(self.slot, begin, sizeof begin - 1);
  if (strncmp(begin, "crashes\n", 8) == 0) abort();
  if (strncmp(begin, "never-confirms\n", 15) == 0) exit(NOT_CONFIRMED);
}

static void open_mqtt(void) {
  mosquitto_lib_init();
  mqtt = mosquitto_new(options.name, true, NULL);
  mosquitto_username_pw_set(mqtt, options.name, getenv("MQTT_PASSWORD"));
  if (options.ca != NULL) mosquitto_tls_set(mqtt, options.ca, NULL, NULL, NULL, NULL);
  mosquitto_connect_callback_set(mqtt, on_connect);
  mosquitto_subscribe_callback_set(mqtt, on_subscribe);
  mosquitto_publish_callback_set(mqtt, on_publish);
  mosquitto_disconnect_callback_set(mqtt, on_disconnect);
  mosquitto_message_callback_set(mqtt, on_message);
}

// Until a signal, or until the new image is to start.
static void serve_session(void) {
  long started_at = now_ms();
  bool is_open = mosquitto_connect(mqtt, options.host, options.port, 60) == MOSQ_ERR_SUCCESS;
  while (!is_ended) {
    long wait = ms_until_step();
    if (is_restarting() && (unsent <= 0 || wait <= 0)) return;
    if (is_trying && now_ms() - started_at > TRIAL_MS) exit(NOT_CONFIRMED);
    if (is_informed && !is_restarting() && wait <= 0) {
      step_update();
      wait = 0;
    }
    if (is_open) is_open = mosquitto_loop(mqtt, wait < 0 ? 10 : wait > 1000 ? 1000 : (int)wait, 1) == MOSQ_ERR_SUCCESS;
    if (is_open || is_ended) continue;
    usleep((useconds_t)(options.wait_ms > 0 ? options.wait_ms : BUSY_MS) * 1000);
    is_open = mosquitto_reconnect(mqtt) == MOSQ_ERR_SUCCESS;
  }
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  read_options(argc, argv);
  open_state(options.state);
  self.slot = load_keys(options.state) > 0 ? boot_slot(&self.booted, &is_trying) : 0;
  if (self.slot == 0) {
    fprintf(stderr, "no slot of %s holds an image that a key in its folder keys signed\n", options.state);
    return NO_IMAGE;
  }
  printf("boot slot=%c version=%s trying=%d\n", self.slot, self.booted.version, is_trying);
  run_image();
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
  open_mqtt();
  open_http();
  serve_session();
  bool is_restart = is_restarting();
  close_update();
  close_http();
  mosquitto_disconnect(mqtt);
  mosquitto_destroy(mqtt);
  mosquitto_lib_cleanup();
  if (is_restart && options.is_respawning) execv("/proc/self/exe", argv);
  return is_restart ? RESTART : DONE;
}
