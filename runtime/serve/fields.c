/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/fields.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/base.h"

static const char *type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
    case 405:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

bool srv_refuse(srv_refusal *r, int status, const char *code, const char *param, const char *fmt, ...) {
  va_list ap;
  if (r->status) return false;
  r->status = status;
  r->type = type_of(status);
  r->code = code;
  snprintf(r->param, sizeof r->param, "%s", param ? param : "");
  va_start(ap, fmt);
  vsnprintf(r->message, sizeof r->message, fmt, ap);
  va_end(ap);
  return false;
}

bool srv_refuse_error(srv_refusal *r, tn_status st, const char *param, const tn_error *err) {
  const char *text = tni_error_text(err);
  if (!*text) text = tni_status_name(st);
  switch (st) {
    case TN_E_INVALID:
      return srv_refuse(r, 400, "invalid_value", param, "%s", text);
    case TN_E_UNAVAILABLE:
    case TN_E_UNSUPPORTED:
      return srv_refuse(r, 400, "unsupported", param, "%s", text);
    case TN_E_LIMIT:
      return srv_refuse(r, 400, "limit_exceeded", param, "%s", text);
    case TN_E_CANCELLED:
      return srv_refuse(r, 503, "cancelled", NULL, "the request was cancelled");
    case TN_E_NO_MEMORY:
      return srv_refuse(r, 503, "no_memory", NULL, "%s", text);
    default:
      return srv_refuse(r, 500, "failed", NULL, "%s", text);
  }
}

/* Names of a request may hold anything; a cut may have split a letter. */
static json_t *shown(const char *s) {
  const size_t n = strlen(s);
  json_t *j = NULL;
  for (size_t cut = 0; !j && cut < 4 && cut <= n; cut++) j = json_stringn(s, n - cut);
  return j ? j : json_string("(not UTF-8)");
}

json_t *srv_refusal_json(const srv_refusal *r) {
  return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", shown(r->message), "type", r->type, "param",
                   *r->param ? shown(r->param) : json_null(), "code", r->code);
}

static const char *kind_of(const json_t *j) {
  switch (json_typeof(j)) {
    case JSON_OBJECT:
      return "an object";
    case JSON_ARRAY:
      return "a list";
    case JSON_STRING:
      return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
      return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
      return "a boolean";
    default:
      return "null";
  }
}

static const json_t *look(const json_t *o, const char *key) {
  const json_t *j = json_object_get(o, key);
  return json_is_null(j) ? NULL : j;
}

static bool wrong(srv_refusal *r, const char *prefix, const char *key, const json_t *j, const char *want) {
  char path[128];
  snprintf(path, sizeof path, "%s%s", prefix, key);
  return srv_refuse(r, 400, "invalid_type", path, "'%s' must be %s, not %s", path, want, kind_of(j));
}

bool srv_real(srv_refusal *r, const json_t *o, const char *prefix, const char *key, double least, double most, double *v) {
  const json_t *j = look(o, key);
  char path[128];
  if (!j) return true;
  if (!json_is_number(j)) return wrong(r, prefix, key, j, "a number");
  const double x = json_number_value(j);
  snprintf(path, sizeof path, "%s%s", prefix, key);
  if (!(x >= least && x <= most))
    return srv_refuse(r, 400, "invalid_value", path, "'%s' is %g: it must be between %g and %g", path, x, least, most);
  *v = x;
  return true;
}

bool srv_count(srv_refusal *r, const json_t *o, const char *prefix, const char *key, int64_t least, int64_t most, int64_t *v) {
  const json_t *j = look(o, key);
  char path[128];
  if (!j) return true;
  if (!json_is_integer(j)) return wrong(r, prefix, key, j, "a whole number");
  const int64_t x = (int64_t)json_integer_value(j);
  snprintf(path, sizeof path, "%s%s", prefix, key);
  if (x < least || x > most)
    return srv_refuse(r, 400, "invalid_value", path, "'%s' is %lld: it must be between %lld and %lld", path, (long long)x,
                      (long long)least, (long long)most);
  *v = x;
  return true;
}

bool srv_flag(srv_refusal *r, const json_t *o, const char *prefix, const char *key, bool *v) {
  const json_t *j = look(o, key);
  if (!j) return true;
  if (!json_is_boolean(j)) return wrong(r, prefix, key, j, "a boolean");
  *v = json_is_true(j);
  return true;
}

bool srv_text(srv_refusal *r, const json_t *o, const char *prefix, const char *key, const char **v) {
  const json_t *j = look(o, key);
  if (!j) return true;
  if (!json_is_string(j)) return wrong(r, prefix, key, j, "a string");
  *v = json_string_value(j);
  return true;
}

bool srv_object(srv_refusal *r, const json_t *o, const char *prefix, const char *key, json_t **v) {
  const json_t *j = look(o, key);
  if (!j) return true;
  if (!json_is_object(j)) return wrong(r, prefix, key, j, "an object");
  *v = json_object_get(o, key);
  return true;
}

bool srv_list(srv_refusal *r, const json_t *o, const char *prefix, const char *key, json_t **v) {
  const json_t *j = look(o, key);
  if (!j) return true;
  if (!json_is_array(j)) return wrong(r, prefix, key, j, "a list");
  *v = json_object_get(o, key);
  return true;
}
