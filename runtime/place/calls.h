/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's functions as the host calls them: sessions, models and the vendor kit alike. Each call holds the lock that
 * the ABI promises, tells whoever bounds its time which call it is in, and looks at what it leaves: a result that is
 * missing, a floating-point mode, blocked signals. Not here: claim and lower (claims.h, program.h).
 *
 * what: names the call where it does not come back, and must live as long as the device. err: what the plugin wrote, or
 * what was wrong; where no line here says else, without the plugin's name: tni_plugin_result makes a message of it. Any
 * thread, without the device's lock.
 */
#ifndef TENON_PLACE_CALLS_H
#define TENON_PLACE_CALLS_H

#include "runtime/base/base.h"
#include "runtime/place/claims.h"

/* me->slot_bytes: [info->n_slots], of which those that the task uses are zeroed here and looked at. Bytes and alignments
 * that no sum may hold are refused, by a message with the plugin's name and `what`; so is a call that fails. */
TN_MUST_CHECK tn_status tni_dev_measure(const tni_dev *d, const tn_program *p, const tn_program_info *info, tn_id task,
                                        const char *what, const tn_dims *dims, tn_measure *me, tn_error *err);
/* view, blob: as the ABI says, either may be NULL. */
TN_MUST_CHECK tn_status tni_dev_set(const tni_dev *d, tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob,
                                    tn_error *err);
TN_MUST_CHECK tn_status tni_dev_bind(const tni_dev *d, tn_program *p, tn_id task, const char *what, const tn_dims *dims,
                                     tn_plan **out, tn_error *err);
void tni_dev_unbind(const tni_dev *d, tn_plan *plan); /* NULL is fine */
TN_MUST_CHECK tn_status tni_dev_args(const tni_dev *d, tn_plan *plan, const char *what, const tn_view *const *views,
                                     uint32_t n, tn_args **out, tn_error *err);
/* Uses [first, first + n) get views[first ..]. */
TN_MUST_CHECK tn_status tni_dev_args_set(const tni_dev *d, tn_args *a, uint32_t first, const tn_view *const *views,
                                         uint32_t n, tn_error *err);
void tni_dev_args_free(const tni_dev *d, tn_args *a); /* NULL is fine */

/* A task of the CPU. No lock: plans are read, and args are the caller's. err has the plugin's name. */
TN_MUST_CHECK tn_status tni_dev_run(const tni_dev *d, const char *what, const tn_plan *plan, tn_args *a, tn_run *run,
                                    tn_error *err);
/* run: of an engine that blocks, else NULL. */
TN_MUST_CHECK tn_status tni_dev_submit(const tni_dev *d, uint32_t engine, const tn_item *const *items, uint32_t n,
                                       tn_run *run, tn_error *err);

TN_MUST_CHECK tn_status tni_dev_create(const tni_dev *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
TN_MUST_CHECK tn_status tni_dev_share(const tni_dev *d, tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
void tni_dev_destroy(const tni_dev *d, tn_buffer *b); /* NULL is fine */
TN_MUST_CHECK tn_status tni_dev_map(const tni_dev *d, tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access,
                                    void **ptr, tn_error *err);
TN_MUST_CHECK tn_status tni_dev_unmap(const tni_dev *d, tn_buffer *b, void *ptr, tn_error *err);

#endif
