/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/mhd.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "runtime/base/base.h"

#define LIBRARY "libmicrohttpd.so.12"

static const struct {
  const char *name;
  size_t at;
} functions[] = {
    {"MHD_start_daemon", offsetof(srv_mhd, start_daemon)},
    {"MHD_quiesce_daemon", offsetof(srv_mhd, quiesce_daemon)},
    {"MHD_stop_daemon", offsetof(srv_mhd, stop_daemon)},
    {"MHD_queue_response", offsetof(srv_mhd, queue_response)},
    {"MHD_create_response_from_buffer", offsetof(srv_mhd, response_of_buffer)},
    {"MHD_create_response_from_callback", offsetof(srv_mhd, response_of_callback)},
    {"MHD_destroy_response", offsetof(srv_mhd, destroy_response)},
    {"MHD_add_response_header", offsetof(srv_mhd, add_header)},
    {"MHD_lookup_connection_value", offsetof(srv_mhd, value)},
    {"MHD_get_connection_info", offsetof(srv_mhd, connection_info)},
    {"MHD_set_connection_option", offsetof(srv_mhd, set_option)},
};

tn_status srv_mhd_open(srv_mhd *m, tn_error *err) {
  *m = (srv_mhd){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
  if (!m->library)
    return tni_fail(err, TN_E_UNAVAILABLE, LIBRARY, "the server needs libmicrohttpd (Debian: libmicrohttpd12): %s",
                    dlerror());
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *f = dlsym(m->library, functions[i].name);
    if (!f) {
      srv_mhd_close(m);
      return tni_fail(err, TN_E_UNAVAILABLE, LIBRARY, "%s has no %s", LIBRARY, functions[i].name);
    }
    memcpy((char *)m + functions[i].at, &f, sizeof f);
  }
  return TN_OK;
}

void srv_mhd_close(srv_mhd *m) {
  if (m->library) dlclose(m->library);
  m->library = NULL;
}
