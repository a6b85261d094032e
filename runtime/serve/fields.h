/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request says, key by key, and what is wrong with it: an error as OpenAI's API words it, with the key's path.
 *
 * A key that is absent or null leaves *v as it is and is right. false: r says what is wrong, and nothing else of the
 * request counts.
 */
#ifndef TENON_SERVE_FIELDS_H
#define TENON_SERVE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/types.h>

#include "runtime/base/json.h"

/* Why a request is refused. */
typedef struct srv_refusal {
  int status; /* of HTTP; 0: it is not */
  const char *type, *code;
  char param[128]; /* the key's path; "": none */
  char message[1024];
} srv_refusal;

/* The first refusal stays. param may be NULL. Always false. */
bool srv_refuse(srv_refusal *r, int status, const char *code, const char *param, const char *fmt, ...) TN_PRINTF(5, 6);
/* Of a call of Tenon that failed. param: NULL, or the key that it was about. */
bool srv_refuse_error(srv_refusal *r, tn_status st, const char *param, const tn_error *err);
/* {"error": {"message", "type", "param", "code"}} */
json_t *srv_refusal_json(const srv_refusal *r);

/* The key's path is prefix + key: prefix "" or "messages[2].". */
bool srv_real(srv_refusal *r, const json_t *o, const char *prefix, const char *key, double least, double most, double *v);
bool srv_count(srv_refusal *r, const json_t *o, const char *prefix, const char *key, int64_t least, int64_t most, int64_t *v);
bool srv_flag(srv_refusal *r, const json_t *o, const char *prefix, const char *key, bool *v);
bool srv_text(srv_refusal *r, const json_t *o, const char *prefix, const char *key, const char **v);
/* An object, or a list. Of the request's memory. */
bool srv_object(srv_refusal *r, const json_t *o, const char *prefix, const char *key, json_t **v);
bool srv_list(srv_refusal *r, const json_t *o, const char *prefix, const char *key, json_t **v);

#endif
