// What is genuine: versions, trusted keys, signed manifests, hashes. Nothing of a manifest is read before its signature is right.
#include "device.h"

#include <cjson/cJSON.h>
#include <glob.h>
#include <mbedtls/asn1write.h>
#include <mbedtls/base64.h>
#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEYS_MAX 4
#define SIGNATURE_SIZE 64

static mbedtls_pk_context keys[KEYS_MAX];
static char key_ids[KEYS_MAX][17];
static int key_count;

static void write_hex(const unsigned char *bytes, size_t count, char *hex) {
  for (size_t i = 0; i < count; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

static const mbedtls_md_info_t *sha256(void) { return mbedtls_md_info_from_type(MBEDTLS_MD_SHA256); }

// Public keys of P-256 in PEM, in the order of their names. Answers how many there are.
int load_keys(const char *folder) {
  char pattern[512];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s/keys/*.pem", folder);
  if (glob(pattern, 0, NULL, &found) != 0) return 0;
  for (size_t i = 0; i < found.gl_pathc && key_count < KEYS_MAX; i++) {
    mbedtls_pk_context *key = &keys[key_count];
    unsigned char der[256], digest[32];
    mbedtls_pk_init(key);
    int length = -1;
    if (mbedtls_pk_parse_public_keyfile(key, found.gl_pathv[i]) == 0 && mbedtls_pk_can_do(key, MBEDTLS_PK_ECDSA) &&
        mbedtls_pk_get_bitlen(key) == 256)
      length = mbedtls_pk_write_pubkey_der(key, der, sizeof der);
    if (length < 0) {
      fprintf(stderr, "%s is no public key of P-256: not used\n", found.gl_pathv[i]);
      mbedtls_pk_free(key);
      continue;
    }
    // mbedTLS writes at the end of the buffer.
    mbedtls_md(sha256(), der + sizeof der - length, (size_t)length, digest);
    write_hex(digest, 8, key_ids[key_count++]);
  }
  globfree(&found);
  return key_count;
}

const char *key_id(int index) { return index < key_count ? key_ids[index] : NULL; }

// One to four numbers. False if `text` is no version.
static bool read_version(const char *text, long numbers[4]) {
  memset(numbers, 0, 4 * sizeof *numbers);
  for (int i = 0; i < 4; i++) {
    int digits = 0;
    for (; *text >= '0' && *text <= '9'; text++, digits++) {
      if (digits == 5) return false;
      numbers[i] = numbers[i] * 10 + (*text - '0');
    }
    if (digits == 0) return false;
    if (*text == '\0') return true;
    if (*text++ != '.') return false;
  }
  return false;
}

bool is_version(const char *text) {
  long numbers[4];
  return read_version(text, numbers);
}

int compare_versions(const char *one, const char *other) {
  long left[4], right[4];
  read_version(one, left);
  read_version(other, right);
  for (int i = 0; i < 4; i++)
    if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
  return 0;
}

// A signature on the wire is r and s of 32 bytes each; mbedTLS wants SEQUENCE { INTEGER r, INTEGER s }.
static int write_der(const unsigned char *signature, unsigned char *der, size_t size, const unsigned char **begin) {
  unsigned char *at = der + size;
  mbedtls_mpi r, s;
  mbedtls_mpi_init(&r);
  mbedtls_mpi_init(&s);
  int length = -1, s_length, r_length;
  if (mbedtls_mpi_read_binary(&r, signature, 32) == 0 && mbedtls_mpi_read_binary(&s, signature + 32, 32) == 0 &&
      (s_length = mbedtls_asn1_write_mpi(&at, der, &s)) > 0 && (r_length = mbedtls_asn1_write_mpi(&at, der, &r)) > 0 &&
      mbedtls_asn1_write_len(&at, der, (size_t)(s_length + r_length)) > 0 &&
      mbedtls_asn1_write_tag(&at, der, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE) > 0)
    length = (int)(der + size - at);
  mbedtls_mpi_free(&r);
  mbedtls_mpi_free(&s);
  *begin = at;
  return length;
}

static bool is_signed(const char *manifest, size_t length, const char *base64) {
  unsigned char signature[SIGNATURE_SIZE + 2], digest[32], der[80];
  const unsigned char *begin;
  size_t decoded;
  if (mbedtls_base64_decode(signature, sizeof signature, &decoded, (const unsigned char *)base64, 88) != 0) return false;
  if (decoded != SIGNATURE_SIZE) return false;
  int der_length = write_der(signature, der, sizeof der, &begin);
  if (der_length < 0 || mbedtls_md(sha256(), (const unsigned char *)manifest, length, digest) != 0) return false;
  for (int i = 0; i < key_count; i++)
    if (mbedtls_pk_verify(&keys[i], MBEDTLS_MD_SHA256, digest, sizeof digest, begin, (size_t)der_length) == 0) return true;
  return false;
}

static bool copy_text(const cJSON *object, const char *name, char *text, size_t size) {
  const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  if (value == NULL || strlen(value) >= size) return false;
  strcpy(text, value);
  return true;
}

// `text` is the manifest and its signature, a line each. False if no trusted key signed it, or if it is no manifest.
bool read_manifest(const char *text, size_t length, manifest_t *manifest) {
  const char *end = memchr(text, '\n', length);
  size_t line = end == NULL ? 0 : (size_t)(end - text);
  if (line == 0 || line > MANIFEST_MAX || length != line + 1 + 88 + 1 || text[length - 1] != '\n') return false;
  if (!is_signed(text, line, end + 1)) return false;
  cJSON *json = cJSON_ParseWithLength(text, line);
  const cJSON *size = cJSON_GetObjectItemCaseSensitive(json, "size");
  strcpy(manifest->minimum_version, "0");
  bool is_read =
      copy_text(json, "product", manifest->product, sizeof manifest->product) &&
      copy_text(json, "version", manifest->version, sizeof manifest->version) && is_version(manifest->version) &&
      copy_text(json, "sha256", manifest->sha256, sizeof manifest->sha256) && strlen(manifest->sha256) == 64 &&
      (!cJSON_HasObjectItem(json, "minimumVersion") ||
       (copy_text(json, "minimumVersion", manifest->minimum_version, sizeof manifest->minimum_version) &&
        is_version(manifest->minimum_version))) &&
      cJSON_IsNumber(size) && size->valuedouble >= 1 && size->valuedouble <= IMAGE_MAX;
  if (is_read) manifest->size = (long)size->valuedouble;
  cJSON_Delete(json);
  return is_read;
}

// The whole file, from its begin.
bool sha256_of_file(int file, char hex[65]) {
  unsigned char bytes[4096], digest[32];
  mbedtls_md_context_t context;
  mbedtls_md_init(&context);
  bool is_done = mbedtls_md_setup(&context, sha256(), 0) == 0 && mbedtls_md_starts(&context) == 0;
  ssize_t count = 0;
  for (off_t at = 0; is_done && (count = pread(file, bytes, sizeof bytes, at)) > 0; at += count)
    is_done = mbedtls_md_update(&context, bytes, (size_t)count) == 0;
  is_done = is_done && count == 0 && mbedtls_md_finish(&context, digest) == 0;
  mbedtls_md_free(&context);
  if (is_done) write_hex(digest, sizeof digest, hex);
  return is_done;
}
