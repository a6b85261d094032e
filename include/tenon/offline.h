/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/offline.h: compiling ahead of time, an extension of the vendor ABI.
 *
 * A plugin whose `bind` compiles for long gives this table for get_extension(p, TN_OFFLINE, 1). `tenon pack` and
 * `tenon bundle` then compile what they can on this machine, whether or not the hardware is here (TN_CAPS_OFFLINE), and
 * what is kept lies in the cache folder or in the bundle. At the start on the device `bind` finds it.
 *
 * What is kept goes through host->cache_put within compile, and comes back through host->cache_get within bind. The
 * plugin chooses the key and says in it all that a result depends on: shapes, options, a digest of weights that are
 * baked in. The host adds the plugin's build_id and caps->key of its devices. So a result fits where both are equal:
 * the offline device says the key of the hardware and driver that it compiles for, and build_id names what compiles, not
 * the file. `bind` treats what it finds as input that may be damaged or stale, and compiles anew where it does not fit.
 *
 * The order for a program: lower, info, then set for each WEIGHT slot, then compile for tasks and dims, then release.
 * Neither the device's set nor bind, args, run or create is called of such a program. One call at a time per device, in
 * the host's process only: a plugin in a process of its own is not asked.
 */
#ifndef TENON_OFFLINE_H
#define TENON_OFFLINE_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_OFFLINE "tenon.offline"

typedef struct tn_offline {
  tn_hdr h;
  /* As tn_device.set, but all of it is memory of the host, whatever the residency says: view->ptr and blob->ptr are
   * there, and stay until release. blob is the whole packed matrix, also for a section; NULL for a raw constant, which
   * view describes then. NULL: compile needs no weights. */
  tn_status (*set)(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
  /* Compiles a task for these dims and hands the result to host->cache_put. Values of symbols that the task does not
   * name are arbitrary. TN_E_UNSUPPORTED: this task has nothing to compile, which is no error. Polls host->cancelled. */
  tn_status (*compile)(tn_program *p, tn_id task, const tn_dims *dims, tn_error *err);
} tn_offline;

#ifdef __cplusplus
}
#endif
#endif
