/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes for nodes that the importer and the passes make.
 */
#include <string.h>

#include "runtime/graph/ir.h"

static tni_raw_attr raw_attr(const char *name, uint32_t type, uint64_t n) {
  return (tni_raw_attr){.name = name, .a = {.h = TN_HDR(tn_attr), .type = type, .n = n}};
}

tni_raw_attr tni_raw_int(const char *name, int64_t v) {
  tni_raw_attr r = raw_attr(name, TN_ATTR_INT, 1);
  r.a.u.i = v;
  return r;
}

tni_raw_attr tni_raw_float(const char *name, double v) {
  tni_raw_attr r = raw_attr(name, TN_ATTR_FLOAT, 1);
  r.a.u.f = v;
  return r;
}

tni_raw_attr tni_raw_string(const char *name, const char *s) {
  tni_raw_attr r = raw_attr(name, TN_ATTR_STRING, strlen(s));
  r.a.u.s = s;
  return r;
}

tni_raw_attr tni_raw_ints(const char *name, const int64_t *v, size_t n) {
  tni_raw_attr r = raw_attr(name, TN_ATTR_INTS, n);
  r.a.u.ints = v;
  return r;
}

tni_raw_attr tni_raw_floats(const char *name, const float *v, size_t n) {
  tni_raw_attr r = raw_attr(name, TN_ATTR_FLOATS, n);
  r.a.u.floats = v;
  return r;
}
