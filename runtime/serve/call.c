/* SPDX-License-Identifier: Apache-2.0
 *
 * What those who answer ask of a request.
 */
#include <poll.h>

#include "runtime/serve/inside.h"

json_t *srv_body(srv_call *c) {
  json_error_t e = {.line = -1};
  tni_json_begin();
  json_t *j = json_loadb(c->body ? c->body : "", c->n_body, TNI_JSON_LARGE_AS_REAL, &e);
  if (!j && tni_json_no_memory(&e)) {
    srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
  } else if (!j) {
    srv_refuse(&c->refusal, 400, "invalid_json", NULL, "the body is not JSON: line %d, column %d: %s", e.line, e.column, e.text);
  } else if (!json_is_object(j)) {
    srv_refuse(&c->refusal, 400, "invalid_json", NULL, "the body must be a JSON object");
    json_decref(j);
    j = NULL;
  }
  return j;
}

bool srv_gone(const srv_call *c) {
  struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}
