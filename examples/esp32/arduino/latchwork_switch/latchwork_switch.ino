// A switch for Latchwork on the Arduino core for ESP32, with stock PubSubClient (256 bytes) and ArduinoJson 7.
// Type-checked against stubs, never run on a board: see ../../README.md.
#include <ArduinoJson.h>
#include <HTTPClient.h>
#include <Preferences.h>
#include <PubSubClient.h>
#include <WiFi.h>

const char *WIFI_SSID = "network";
const char *WIFI_PASSWORD = "password";
const char *API = "http://192.168.1.20:8787/api/v1";
const char *PRODUCT_KEY = "my-switch";
const char *SERIAL_NUMBER = "SN-1";
// BOOT on most boards. Held for five seconds while the firmware runs, it erases what the activation answered.
const uint8_t BUTTON = 0;

WiFiClient net;
PubSubClient mqtt(net);
Preferences flash;

// As the activation answered; topics follow from the name: {productKey}&{deviceId}.
String server, name, password, base;
uint16_t port;
String position = "middle";
uint32_t nextId = 1;
unsigned long lastReportMs, lastTryMs, pressedMs;

void activate() {
  HTTPClient http;
  http.begin(String(API) + "/devices/activate");
  http.setTimeout(10000);
  http.addHeader("Content-Type", "application/json");
  JsonDocument request;
  request["productKey"] = PRODUCT_KEY;
  request["deviceSN"] = SERIAL_NUMBER;
  request["firmwareVersion"] = "1.0.0";
  request["chipModel"] = "ESP32";
  String body;
  serializeJson(request, body);
  int status = http.POST(body);
  JsonDocument answer;
  bool isRead = deserializeJson(answer, http.getString()) == DeserializationError::Ok;
  http.end();
  if (status != 200 || !isRead) {
    Serial.printf("activation: %d %s\n", status, answer["message"] | "no answer");
    return;
  }
  JsonObject broker = answer["data"]["mqtt"];
  flash.putString("server", broker["server"].as<const char *>());
  flash.putUShort("port", broker["port"].as<uint16_t>());
  flash.putString("name", broker["clientId"].as<const char *>());
  flash.putString("password", broker["password"].as<const char *>());
}

void eraseIfHeld() {
  if (digitalRead(BUTTON) == HIGH) pressedMs = 0;
  else if (pressedMs == 0) pressedMs = millis();
  if (pressedMs == 0 || millis() - pressedMs < 5000) return;
  flash.clear();
  ESP.restart();
}

void load() {
  server = flash.getString("server");
  port = flash.getUShort("port");
  name = flash.getString("name");
  password = flash.getString("password");
  base = "/sys/" + name;
  base.replace("&", "/");
}

void report() {
  JsonDocument message;
  message["method"] = "thing.event.property.post";
  message["id"] = String(nextId++);
  message["params"]["position"] = position;
  message["params"]["wifi_rssi"] = WiFi.RSSI();
  String body;
  serializeJson(message, body);
  mqtt.publish((base + "/thing/event/property/post").c_str(), body.c_str());
  lastReportMs = millis();
}

void onCommand(char *, byte *payload, unsigned int length) {
  // A reply must not reuse the buffer before everything was read of it.
  JsonDocument command;
  if (deserializeJson(command, payload, length) != DeserializationError::Ok) return;
  if (command["method"] != "thing.service.property.set") return;
  JsonObject params = command["params"];
  String wanted = params["position"] | (params["action"] == "toggle" ? (position == "up" ? "down" : "up") : position.c_str());
  position = wanted;  // Move the servo here.
  JsonDocument reply;
  reply["method"] = "thing.service.property.set_reply";
  reply["id"] = command["id"];
  reply["code"] = 200;
  String body;
  serializeJson(reply, body);
  mqtt.publish((base + "/thing/service/property/set_reply").c_str(), body.c_str());
  report();
}

void setup() {
  Serial.begin(115200);
  pinMode(BUTTON, INPUT_PULLUP);
  flash.begin("latchwork");
  WiFi.begin(WIFI_SSID, WIFI_PASSWORD);
  mqtt.setCallback(onCommand);
  mqtt.setKeepAlive(60);
}

void loop() {
  eraseIfHeld();
  if (mqtt.connected()) {
    mqtt.loop();
    if (millis() - lastReportMs > 30000) report();
    return;
  }
  if (WiFi.status() != WL_CONNECTED || (lastTryMs != 0 && millis() - lastTryMs < 5000)) return;
  lastTryMs = millis();
  if (!flash.isKey("password")) activate();
  if (!flash.isKey("password")) return;
  load();
  mqtt.setServer(server.c_str(), port);
  if (mqtt.connect(name.c_str(), name.c_str(), password.c_str())) {
    mqtt.subscribe((base + "/thing/service/property/set").c_str(), 1);
    report();
  } else {
    // 4, 5: refused. The service's events of the device say why; hold the button to erase the flash and activate anew.
    Serial.printf("MQTT: %d\n", mqtt.state());
  }
}
