/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of the server: a conversation, of what page/ holds.
 */
#include <string.h>

#include "page_text.h"
#include "runtime/serve/inside.h"

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

void srv_page(srv_call *c) {
  if (strcmp(c->route->path, "/page.js") == 0)
    srv_send_static(c, "text/javascript; charset=utf-8", tni_src_script, policy);
  else if (strcmp(c->route->path, "/page.css") == 0)
    srv_send_static(c, "text/css; charset=utf-8", tni_src_style, policy);
  else
    srv_send_static(c, "text/html; charset=utf-8", tni_src_page, policy);
}
