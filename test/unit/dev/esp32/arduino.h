// What examples/esp32/arduino uses of the Arduino core, PubSubClient and ArduinoJson 7. A test turns the clock and the button.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>

typedef uint8_t byte;
enum { LOW, HIGH, INPUT_PULLUP = 5 };
inline unsigned long nowMs = 0;
inline int buttonLevel = HIGH;
inline bool isErased = false;
inline unsigned long millis() { return nowMs; }
inline int digitalRead(uint8_t) { return buttonLevel; }
inline void pinMode(uint8_t, uint8_t) {}

struct String : std::string {
  String(const char *text = "") : std::string(text == nullptr ? "" : text) {}
  String(const std::string &text) : std::string(text) {}
  explicit String(unsigned long number) : std::string(std::to_string(number)) {}
  void replace(const String &, const String &) {}
};
inline String operator+(const String &one, const char *other) { return std::string(one) + other; }
inline String operator+(const char *one, const String &other) { return one + std::string(other); }

struct { void begin(unsigned long) {} int printf(const char *, ...) __attribute__((format(printf, 2, 3))) { return 0; } } inline Serial;
struct { void restart() {} } inline ESP;
enum { WL_IDLE_STATUS, WL_CONNECTED = 3 };
struct { void begin(const char *, const char *) {} int status() { return WL_IDLE_STATUS; } int8_t RSSI() { return 0; } } inline WiFi;
struct WiFiClient {};

struct Preferences {
  bool begin(const char *, bool readOnly = false) { return !readOnly; }
  bool clear() { return isErased = true; }
  bool isKey(const char *) { return false; }
  String getString(const char *) { return ""; }
  uint16_t getUShort(const char *) { return 0; }
  size_t putString(const char *, const char *) { return 0; }
  size_t putUShort(const char *, uint16_t) { return 0; }
};

struct HTTPClient {
  bool begin(const String &) { return true; }
  void setTimeout(uint16_t) {}
  void addHeader(const String &, const String &) {}
  int POST(const String &) { return 0; }
  String getString() { return ""; }
  void end() {}
};

struct PubSubClient {
  explicit PubSubClient(WiFiClient &) {}
  PubSubClient &setServer(const char *, uint16_t) { return *this; }
  PubSubClient &setCallback(void (*)(char *, uint8_t *, unsigned int)) { return *this; }
  PubSubClient &setKeepAlive(uint16_t) { return *this; }
  bool connect(const char *, const char *, const char *) { return false; }
  bool connected() { return false; }
  bool loop() { return true; }
  bool publish(const char *, const char *) { return true; }
  bool subscribe(const char *, uint8_t) { return true; }
  int state() { return 0; }
};

struct DeserializationError { enum Code { Ok }; Code code; bool operator==(Code other) const { return code == other; } bool operator!=(Code other) const { return code != other; } };
struct JsonVariant {
  JsonVariant operator[](const char *) const { return {}; }
  template <typename Value> const JsonVariant &operator=(const Value &) const { return *this; }
  template <typename Value> Value as() const { return Value(); }
  const char *operator|(const char *fallback) const { return fallback; }
  bool operator==(const char *) const { return false; }
  bool operator!=(const char *) const { return true; }
};
typedef JsonVariant JsonObject, JsonDocument;
inline DeserializationError deserializeJson(JsonDocument &, const String &) { return {DeserializationError::Ok}; }
inline DeserializationError deserializeJson(JsonDocument &, const byte *, size_t) { return {DeserializationError::Ok}; }
inline size_t serializeJson(const JsonDocument &, String &) { return 0; }
