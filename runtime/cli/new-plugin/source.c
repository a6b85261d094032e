/* @NAME@: a backend for Tenon. The contract is <tenon/plugin.h>; writing-a-plugin.md goes on from here (installed in
 * share/doc/tenon).
 *
 * What stands here opens a device that takes nothing, and says so: the level "abi" of `tenon conform` passes. */
#define PLUGIN_NAME "@NAME@"
#define PLUGIN_VERSION "0.1.0"
#include "skeleton.h"

/* ---- the device ---- */

static void set_up(backend *p) { (void)p; /* options, formats, create, submit */ }

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)p, (void)err;
  *n = 1;
  return TN_OK;
}
#include "nothing.h"

TN_PLUGIN(@IDENT@, entry)
