// A switch for Latchwork on ESP-IDF 5: esp_http_client, esp-mqtt, cJSON.
// Type-checked against stubs, never run on a board: see ../../README.md. The task of app_main owns all state of the device.
// The task of esp-mqtt only puts into a queue what it heard.
#include <stdio.h>
#include <string.h>
#include "cJSON.h"
#include "driver/gpio.h"
#include "esp_event.h"
#include "esp_http_client.h"
#include "esp_log.h"
#include "esp_system.h"
#include "esp_wifi.h"
#include "freertos/FreeRTOS.h"
#include "freertos/event_groups.h"
#include "freertos/queue.h"
#include "freertos/task.h"
#include "mqtt_client.h"
#include "nvs.h"
#include "nvs_flash.h"

#define WIFI_SSID "network"
#define WIFI_PASSWORD "password"
#define API "http://192.168.1.20:8787/api/v1"
#define PRODUCT_KEY "my-switch"
#define SERIAL_NUMBER "SN-1"
// BOOT on most boards. Held for five seconds while the firmware runs, it erases what the activation answered.
#define BUTTON GPIO_NUM_0

static const char *TAG = "latchwork";
static EventGroupHandle_t wifi_events;
// What was heard; without a command it is a new connection. A command has at most 256 bytes with its topic.
typedef struct {
  int length;
  char command[256];
} heard_t;
static QueueHandle_t heard_queue;
static esp_mqtt_client_handle_t client;
// As the activation answered. The name is {productKey}&{deviceId}, of 77 characters at most.
static char server[128], name[80], password[64], base[96];
static uint16_t port;
static char position[8] = "middle";
static int next_id = 1;

static void on_wifi(void *arg, esp_event_base_t event_base, int32_t id, void *data) {
  if (event_base == IP_EVENT) {
    xEventGroupSetBits(wifi_events, 1);
  } else if (id == WIFI_EVENT_STA_START || id == WIFI_EVENT_STA_DISCONNECTED) {
    esp_wifi_connect();
  }
}

static void start_wifi(void) {
  wifi_events = xEventGroupCreate();
  ESP_ERROR_CHECK(esp_netif_init());
  ESP_ERROR_CHECK(esp_event_loop_create_default());
  esp_netif_create_default_wifi_sta();
  wifi_init_config_t init = WIFI_INIT_CONFIG_DEFAULT();
  ESP_ERROR_CHECK(esp_wifi_init(&init));
  ESP_ERROR_CHECK(esp_event_handler_register(WIFI_EVENT, ESP_EVENT_ANY_ID, on_wifi, NULL));
  ESP_ERROR_CHECK(esp_event_handler_register(IP_EVENT, IP_EVENT_STA_GOT_IP, on_wifi, NULL));
  wifi_config_t config = {.sta = {.ssid = WIFI_SSID, .password = WIFI_PASSWORD}};
  ESP_ERROR_CHECK(esp_wifi_set_mode(WIFI_MODE_STA));
  ESP_ERROR_CHECK(esp_wifi_set_config(WIFI_IF_STA, &config));
  ESP_ERROR_CHECK(esp_wifi_start());
  xEventGroupWaitBits(wifi_events, 1, pdFALSE, pdTRUE, portMAX_DELAY);
}

static void keep(const cJSON *broker) {
  nvs_handle_t flash;
  ESP_ERROR_CHECK(nvs_open("latchwork", NVS_READWRITE, &flash));
  nvs_set_str(flash, "server", cJSON_GetObjectItem(broker, "server")->valuestring);
  nvs_set_u16(flash, "port", (uint16_t)cJSON_GetObjectItem(broker, "port")->valueint);
  nvs_set_str(flash, "name", cJSON_GetObjectItem(broker, "clientId")->valuestring);
  nvs_set_str(flash, "password", cJSON_GetObjectItem(broker, "password")->valuestring);
  nvs_commit(flash);
  nvs_close(flash);
}

static bool load(void) {
  nvs_handle_t flash;
  if (nvs_open("latchwork", NVS_READONLY, &flash) != ESP_OK) return false;
  size_t server_size = sizeof server, name_size = sizeof name, password_size = sizeof password;
  bool is_there = nvs_get_str(flash, "server", server, &server_size) == ESP_OK &&
                  nvs_get_u16(flash, "port", &port) == ESP_OK &&
                  nvs_get_str(flash, "name", name, &name_size) == ESP_OK &&
                  nvs_get_str(flash, "password", password, &password_size) == ESP_OK;
  nvs_close(flash);
  snprintf(base, sizeof base, "/sys/%s", name);
  char *separator = strchr(base, '&');
  if (separator != NULL) *separator = '/';
  return is_there;
}

static bool activate(void) {
  static const char body[] = "{\"productKey\":\"" PRODUCT_KEY "\",\"deviceSN\":\"" SERIAL_NUMBER
                             "\",\"firmwareVersion\":\"1.0.0\",\"chipModel\":\"ESP32\"}";
  static char answer[1536];
  esp_http_client_config_t config = {.url = API "/devices/activate", .method = HTTP_METHOD_POST, .timeout_ms = 10000};
  esp_http_client_handle_t http = esp_http_client_init(&config);
  esp_http_client_set_header(http, "Content-Type", "application/json");
  int length = -1;
  if (esp_http_client_open(http, sizeof body - 1) == ESP_OK && esp_http_client_write(http, body, sizeof body - 1) >= 0 &&
      esp_http_client_fetch_headers(http) >= 0) {
    length = esp_http_client_read_response(http, answer, sizeof answer - 1);
  }
  int status = esp_http_client_get_status_code(http);
  esp_http_client_cleanup(http);
  if (length < 0) return false;
  answer[length] = '\0';
  cJSON *json = cJSON_Parse(answer);
  const cJSON *broker = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "data"), "mqtt");
  if (status == 200 && broker != NULL) keep(broker);
  else ESP_LOGW(TAG, "activation: %d %s", status, answer);
  cJSON_Delete(json);
  return status == 200 && broker != NULL;
}

static void publish(const char *action, const char *body) {
  char topic[128];
  snprintf(topic, sizeof topic, "%s/%s", base, action);
  esp_mqtt_client_publish(client, topic, body, 0, 0, 0);
}

static void report(void) {
  wifi_ap_record_t network = {0};
  esp_wifi_sta_get_ap_info(&network);
  char body[192];
  snprintf(body, sizeof body,
           "{\"method\":\"thing.event.property.post\",\"id\":\"%d\",\"params\":{\"position\":\"%s\",\"wifi_rssi\":%d}}",
           next_id++, position, network.rssi);
  publish("thing/event/property/post", body);
}

static void on_command(const char *data, int length) {
  cJSON *command = cJSON_ParseWithLength(data, length);
  const cJSON *id = cJSON_GetObjectItem(command, "id");
  const cJSON *params = cJSON_GetObjectItem(command, "params");
  if (cJSON_IsString(id)) {
    const cJSON *wanted = cJSON_GetObjectItem(params, "position");
    const cJSON *action = cJSON_GetObjectItem(params, "action");
    if (cJSON_IsString(wanted)) strlcpy(position, wanted->valuestring, sizeof position);
    else if (cJSON_IsString(action) && strcmp(action->valuestring, "toggle") == 0)
      strlcpy(position, strcmp(position, "up") == 0 ? "down" : "up", sizeof position);
    // Move the servo here.
    char reply[128];
    snprintf(reply, sizeof reply, "{\"method\":\"thing.service.property.set_reply\",\"id\":\"%s\",\"code\":200}",
             id->valuestring);
    publish("thing/service/property/set_reply", reply);
    report();
  }
  cJSON_Delete(command);
}

static void on_mqtt(void *arg, esp_event_base_t event_base, int32_t id, void *data) {
  esp_mqtt_event_handle_t event = data;
  heard_t heard = {0};
  if (id == MQTT_EVENT_ERROR && event->error_handle->error_type == MQTT_ERROR_TYPE_CONNECTION_REFUSED) {
    // The service's events of the device say why; hold the button to erase the flash and activate anew.
    ESP_LOGW(TAG, "MQTT refused: %d", event->error_handle->connect_return_code);
  } else if (id == MQTT_EVENT_DATA && event->data_len == event->total_data_len &&
             event->data_len <= (int)sizeof heard.command) {
    heard.length = event->data_len;
    memcpy(heard.command, event->data, event->data_len);
    xQueueSend(heard_queue, &heard, 0);
  } else if (id == MQTT_EVENT_CONNECTED) {
    xQueueSend(heard_queue, &heard, 0);
  }
}

static void on_connected(void) {
  char topic[128];
  snprintf(topic, sizeof topic, "%s/thing/service/property/set", base);
  esp_mqtt_client_subscribe(client, topic, 1);
  report();
}

static void erase(void) {
  nvs_handle_t flash;
  ESP_ERROR_CHECK(nvs_open("latchwork", NVS_READWRITE, &flash));
  ESP_ERROR_CHECK(nvs_erase_all(flash));
  ESP_ERROR_CHECK(nvs_commit(flash));
  nvs_close(flash);
  esp_restart();
}

void app_main(void) {
  ESP_ERROR_CHECK(nvs_flash_init());
  ESP_ERROR_CHECK(gpio_set_direction(BUTTON, GPIO_MODE_INPUT));
  ESP_ERROR_CHECK(gpio_set_pull_mode(BUTTON, GPIO_PULLUP_ONLY));
  start_wifi();
  while (!load()) {
    if (!activate()) vTaskDelay(pdMS_TO_TICKS(5000));
  }
  heard_queue = xQueueCreate(8, sizeof(heard_t));
  esp_mqtt_client_config_t config = {
      .broker.address = {.hostname = server, .port = port, .transport = MQTT_TRANSPORT_OVER_TCP},
      .credentials = {.client_id = name, .username = name, .authentication.password = password},
      .session.keepalive = 60,
  };
  client = esp_mqtt_client_init(&config);
  esp_mqtt_client_register_event(client, ESP_EVENT_ANY_ID, on_mqtt, NULL);
  esp_mqtt_client_start(client);
  TickType_t reported_at = xTaskGetTickCount(), pressed_at = 0;
  for (;;) {
    heard_t heard;
    if (xQueueReceive(heard_queue, &heard, pdMS_TO_TICKS(100)) == pdTRUE) {
      if (heard.length == 0) on_connected();
      else on_command(heard.command, heard.length);
    }
    TickType_t now = xTaskGetTickCount();
    if (now - reported_at >= pdMS_TO_TICKS(30000)) {
      reported_at = now;
      report();
    }
    if (gpio_get_level(BUTTON) != 0) pressed_at = 0;
    else if (pressed_at == 0) pressed_at = now;
    else if (now - pressed_at >= pdMS_TO_TICKS(5000)) erase();
  }
}
