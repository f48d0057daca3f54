// What examples/esp32/esp-idf uses of ESP-IDF 5, FreeRTOS and cJSON: types and signatures only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int esp_err_t;
#define ESP_OK 0
#define ESP_ERROR_CHECK(call) do { esp_err_t error = (call); (void)error; } while (0)
#define ESP_LOGW(tag, ...) esp_log_warn(tag, __VA_ARGS__)
void esp_log_warn(const char *tag, const char *format, ...) __attribute__((format(printf, 2, 3)));
void esp_restart(void) __attribute__((noreturn));
size_t strlcpy(char *restrict to, const char *restrict from, size_t size);

typedef int BaseType_t;
typedef unsigned UBaseType_t;
typedef uint32_t TickType_t;
typedef uint32_t EventBits_t;
typedef struct event_group *EventGroupHandle_t;
typedef struct queue *QueueHandle_t;
#define pdTRUE ((BaseType_t)1)
#define pdFALSE ((BaseType_t)0)
#define portMAX_DELAY ((TickType_t)0xffffffffUL)
#define pdMS_TO_TICKS(ms) ((TickType_t)((ms) / 10))
EventGroupHandle_t xEventGroupCreate(void);
EventBits_t xEventGroupSetBits(EventGroupHandle_t group, EventBits_t bits);
EventBits_t xEventGroupWaitBits(EventGroupHandle_t group, EventBits_t bits, BaseType_t clear, BaseType_t all, TickType_t wait);
QueueHandle_t xQueueCreate(UBaseType_t length, UBaseType_t size);
BaseType_t xQueueSend(QueueHandle_t queue, const void *item, TickType_t wait);
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, TickType_t wait);
void vTaskDelay(TickType_t ticks);
TickType_t xTaskGetTickCount(void);

typedef enum { GPIO_NUM_0 } gpio_num_t;
typedef enum { GPIO_MODE_INPUT = 1 } gpio_mode_t;
typedef enum { GPIO_PULLUP_ONLY } gpio_pull_mode_t;
esp_err_t gpio_set_direction(gpio_num_t pin, gpio_mode_t mode);
esp_err_t gpio_set_pull_mode(gpio_num_t pin, gpio_pull_mode_t pull);
int gpio_get_level(gpio_num_t pin);

typedef const char *esp_event_base_t;
typedef void (*esp_event_handler_t)(void *arg, esp_event_base_t base, int32_t id, void *data);
#define ESP_EVENT_ANY_ID -1
extern esp_event_base_t const WIFI_EVENT, IP_EVENT;
enum { WIFI_EVENT_STA_START = 2, WIFI_EVENT_STA_DISCONNECTED = 5, IP_EVENT_STA_GOT_IP = 0 };
esp_err_t esp_event_loop_create_default(void);
esp_err_t esp_event_handler_register(esp_event_base_t base, int32_t id, esp_event_handler_t handler, void *arg);

typedef struct { int static_rx_buf_num; } wifi_init_config_t;
typedef union { struct { uint8_t ssid[32], password[64]; } sta; } wifi_config_t;
typedef struct { uint8_t bssid[6]; int8_t rssi; } wifi_ap_record_t;
typedef enum { WIFI_MODE_STA = 1 } wifi_mode_t;
typedef enum { WIFI_IF_STA } wifi_interface_t;
#define WIFI_INIT_CONFIG_DEFAULT() {.static_rx_buf_num = 10}
esp_err_t esp_netif_init(void);
struct esp_netif_obj *esp_netif_create_default_wifi_sta(void);
esp_err_t esp_wifi_init(const wifi_init_config_t *config);
esp_err_t esp_wifi_set_mode(wifi_mode_t mode);
esp_err_t esp_wifi_set_config(wifi_interface_t interface, wifi_config_t *config);
esp_err_t esp_wifi_start(void);
esp_err_t esp_wifi_connect(void);
esp_err_t esp_wifi_sta_get_ap_info(wifi_ap_record_t *info);

typedef uint32_t nvs_handle_t;
typedef enum { NVS_READONLY, NVS_READWRITE } nvs_open_mode_t;
esp_err_t nvs_flash_init(void);
esp_err_t nvs_open(const char *name, nvs_open_mode_t mode, nvs_handle_t *handle);
esp_err_t nvs_set_str(nvs_handle_t handle, const char *key, const char *value);
esp_err_t nvs_set_u16(nvs_handle_t handle, const char *key, uint16_t value);
esp_err_t nvs_get_str(nvs_handle_t handle, const char *key, char *value, size_t *length);
esp_err_t nvs_get_u16(nvs_handle_t handle, const char *key, uint16_t *value);
esp_err_t nvs_erase_all(nvs_handle_t handle);
esp_err_t nvs_commit(nvs_handle_t handle);
void nvs_close(nvs_handle_t handle);

typedef struct cJSON { char *valuestring; int valueint; } cJSON;
cJSON *cJSON_Parse(const char *text);
cJSON *cJSON_ParseWithLength(const char *text, size_t length);
cJSON *cJSON_GetObjectItem(const cJSON *object, const char *name);
int cJSON_IsString(const cJSON *item);
void cJSON_Delete(cJSON *item);

typedef struct esp_http_client *esp_http_client_handle_t;
typedef enum { HTTP_METHOD_GET, HTTP_METHOD_POST } esp_http_client_method_t;
typedef struct { const char *url; esp_http_client_method_t method; int timeout_ms; } esp_http_client_config_t;
esp_http_client_handle_t esp_http_client_init(const esp_http_client_config_t *config);
esp_err_t esp_http_client_set_header(esp_http_client_handle_t client, const char *name, const char *value);
esp_err_t esp_http_client_open(esp_http_client_handle_t client, int length);
int esp_http_client_write(esp_http_client_handle_t client, const char *data, int length);
int64_t esp_http_client_fetch_headers(esp_http_client_handle_t client);
int esp_http_client_read_response(esp_http_client_handle_t client, char *data, int length);
int esp_http_client_get_status_code(esp_http_client_handle_t client);
esp_err_t esp_http_client_cleanup(esp_http_client_handle_t client);

typedef struct esp_mqtt_client *esp_mqtt_client_handle_t;
typedef enum { MQTT_EVENT_ANY = -1, MQTT_EVENT_ERROR, MQTT_EVENT_CONNECTED, MQTT_EVENT_DATA = 6 } esp_mqtt_event_id_t;
typedef enum { MQTT_ERROR_TYPE_NONE, MQTT_ERROR_TYPE_CONNECTION_REFUSED = 2 } esp_mqtt_error_type_t;
typedef enum { MQTT_TRANSPORT_UNKNOWN, MQTT_TRANSPORT_OVER_TCP } esp_mqtt_transport_t;
typedef struct { esp_mqtt_error_type_t error_type; int connect_return_code; } esp_mqtt_error_codes_t;
typedef struct { char *data; int data_len, total_data_len; esp_mqtt_error_codes_t *error_handle; } esp_mqtt_event_t;
typedef esp_mqtt_event_t *esp_mqtt_event_handle_t;
typedef struct {
  struct { struct { const char *uri, *hostname; esp_mqtt_transport_t transport; uint32_t port; } address; } broker;
  struct { const char *username, *client_id; struct { const char *password; } authentication; } credentials;
  struct { int keepalive; } session;
} esp_mqtt_client_config_t;
esp_mqtt_client_handle_t esp_mqtt_client_init(const esp_mqtt_client_config_t *config);
esp_err_t esp_mqtt_client_register_event(esp_mqtt_client_handle_t client, esp_mqtt_event_id_t id, esp_event_handler_t handler, void *arg);
esp_err_t esp_mqtt_client_start(esp_mqtt_client_handle_t client);
int esp_mqtt_client_subscribe(esp_mqtt_client_handle_t client, const char *topic, int qos);
int esp_mqtt_client_publish(esp_mqtt_client_handle_t client, const char *topic, const char *data, int len, int qos, int retain);
