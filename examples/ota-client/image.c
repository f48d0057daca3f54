// What is genuine: trusted keys, versions, signed manifests, hashes. Nothing of a manifest is read before its signature is right.
#include "device.h"

#include <mbedtls/base64.h>
#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <psa/crypto.h>
#include <stdio.h>
#include <string.h>

#define KEYS_MAX 4
#define IMAGE_MAX (16L * 1024 * 1024)
#define ALGORITHM PSA_ALG_ECDSA(PSA_ALG_SHA_256)
#define POINT_SIZE 65

static psa_key_id_t keys[KEYS_MAX];
static int key_count;
char key_ids[64];

static void write_hex(const unsigned char *bytes, size_t count, char *hex) {
  for (size_t i = 0; i < count; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

// key-1.pem to key-4.pem, public keys of P-256. False if there is none.
bool load_keys(void) {
  psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
  psa_set_key_type(&attributes, PSA_KEY_TYPE_ECC_PUBLIC_KEY(PSA_ECC_FAMILY_SECP_R1));
  psa_set_key_bits(&attributes, 256);
  psa_set_key_algorithm(&attributes, ALGORITHM);
  psa_set_key_usage_flags(&attributes, PSA_KEY_USAGE_VERIFY_MESSAGE);
  psa_crypto_init();
  for (int i = 1; i <= KEYS_MAX; i++) {
    mbedtls_pk_context key;
    char path[16], id[17];
    unsigned char der[1024], digest[32], *end = der + sizeof der;
    size_t count;
    snprintf(path, sizeof path, "key-%d.pem", i);
    mbedtls_pk_init(&key);
    // Written at the end of the buffer; the point of the key comes last.
    int length = mbedtls_pk_parse_public_keyfile(&key, path) == 0 ? mbedtls_pk_write_pubkey_der(&key, der, sizeof der) : 0;
    mbedtls_pk_free(&key);
    if (length < POINT_SIZE || psa_import_key(&attributes, end - POINT_SIZE, POINT_SIZE, &keys[key_count]) != PSA_SUCCESS) continue;
    psa_hash_compute(PSA_ALG_SHA_256, end - length, (size_t)length, digest, sizeof digest, &count);
    write_hex(digest, 8, id);
    if (key_count++ < 2) snprintf(key_ids + strlen(key_ids), sizeof key_ids - strlen(key_ids), "%s\"%s\"", key_count > 1 ? "," : "", id);
  }
  return key_count > 0;
}

// Below 0 if `one` is older. A number that is missing is 0.
int compare_versions(const char *one, const char *other) {
  unsigned left[4] = {0}, right[4] = {0};
  sscanf(one, "%5u.%5u.%5u.%5u", &left[0], &left[1], &left[2], &left[3]);
  sscanf(other, "%5u.%5u.%5u.%5u", &right[0], &right[1], &right[2], &right[3]);
  for (int i = 0; i < 4; i++)
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  return 0;
}

// `signature`: 64 bytes in base64.
static bool is_signed(const char *text, size_t length, const char *signature) {
  unsigned char bytes[66];
  size_t count = 0;
  mbedtls_base64_decode(bytes, sizeof bytes, &count, (const unsigned char *)signature, 88);
  for (int i = 0; i < key_count; i++)
    if (psa_verify_message(keys[i], ALGORITHM, (const unsigned char *)text, length, bytes, count) == PSA_SUCCESS) return true;
  return false;
}

// `text` is the manifest and its signature, a line each. False if no trusted key signed it, or if it is no manifest.
bool read_manifest(const char *text, size_t length, manifest_t *manifest) {
  const char *end = memchr(text, '\n', length);
  size_t line = end == NULL ? 0 : (size_t)(end - text);
  if (line == 0 || line > MANIFEST_MAX || length != line + 1 + 88 + 1 || !is_signed(text, line, end + 1)) return false;
  cJSON *json = cJSON_ParseWithLength(text, line);
  strcpy(manifest->minimum_version, "0");
  manifest->size = read_count(json, "size");
  bool is_read = manifest->size > 0 && READ_TEXT(json, "product", manifest->product) &&
                 READ_TEXT(json, "version", manifest->version) && READ_TEXT(json, "sha256", manifest->sha256) &&
                 (!cJSON_HasObjectItem(json, "minimumVersion") || READ_TEXT(json, "minimumVersion", manifest->minimum_version));
  cJSON_Delete(json);
  return is_read;
}

bool has_hash(const char *path, const char *expected) {
  unsigned char digest[32];
  char hex[65];
  if (mbedtls_md_file(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), path, digest) != 0) return false;
  write_hex(digest, sizeof digest, hex);
  return strcmp(hex, expected) == 0;
}

// False if there is no such text, or if it does not fit.
bool read_text(const cJSON *json, const char *name, char *text, size_t room) {
  const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
  if (value == NULL || strlen(value) >= room) return false;
  strcpy(text, value);
  return true;
}

// -1 if it is no number that counts bytes of an image.
long read_count(const cJSON *json, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
  bool is_count = cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= IMAGE_MAX;
  return is_count ? (long)value->valuedouble : -1;
}
