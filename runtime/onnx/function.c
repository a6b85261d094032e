/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/onnx/convert.h"

static const char *text_or_empty(const char *s) { return s ? s : ""; }

static const char *domain_of(const char *domain) { return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

/* "domain:name:overload" on scratch memory. */
static const char *key_of(const tni_import *c, const char *domain, const char *name, const char *overload) {
  size_t n = strlen(domain) + strlen(name) + strlen(overload) + 3;
  char *key = tni_arena_alloc(c->scratch, n, 1);
  if (key) snprintf(key, n, "%s:%s:%s", domain, name, overload);
  return key;
}

tn_status tni_index_functions(tni_import *c) {
  for (size_t i = 0; i < c->proto->n_functions; i++) {
    const Onnx__FunctionProto *f = c->proto->functions[i];
    const char *key = key_of(c, domain_of(f->domain), text_or_empty(f->name), text_or_empty(f->overload));
    uint64_t known;
    if (!key) return tni_fail_memory(c->err, c->file);
    if (tni_map_get_str(c->functions, key, &known))
      return tni_fail(c->err, TN_E_INVALID, c->file, "function '%s' is defined twice", key);
    if (!tni_map_put_str(c->functions, key, i)) return tni_fail_memory(c->err, c->file);
  }
  return TN_OK;
}

const Onnx__FunctionProto *tni_find_function(const tni_import *c, const Onnx__NodeProto *n) {
  if (c->proto->n_functions == 0) return NULL;
  const char *key = key_of(c, domain_of(n->domain), text_or_empty(n->op_type), text_or_empty(n->overload));
  uint64_t i;
  return key && tni_map_get_str(c->functions, key, &i) ? c->proto->functions[i] : NULL;
}

tn_status tni_check_opsets(tni_import *c, Onnx__OperatorSetIdProto *const *sets, size_t n, const char *who) {
  if (n > TNI_MAX_OPSETS)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "%s imports %zu opsets, at most %d are supported", who, n,
                    TNI_MAX_OPSETS);
  for (size_t i = 0; i < n; i++) {
    if (*domain_of(sets[i]->domain)) continue;
    if (sets[i]->version < TNI_OPSET_MIN || sets[i]->version > TNI_OPSET_MAX)
      return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "%s uses opset %" PRId64 " of ai.onnx; %d to %d are supported",
                      who, sets[i]->version, TNI_OPSET_MIN, TNI_OPSET_MAX);
  }
  return TN_OK;
}
