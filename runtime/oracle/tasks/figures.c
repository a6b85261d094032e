/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and numbers as JSON can hold them.
 */
#include <math.h>

#include "runtime/oracle/tasks/evaluation.h"

json_t *tni_text_json(const char *s) {
  json_t *j = json_string(s ? s : "");
  return j ? j : json_string("(not UTF-8)");
}

double tni_json_number(double v) { return isfinite(v) ? v : 1e30; }
