/* SPDX-License-Identifier: Apache-2.0
 *
 * The first load of a plugin: whether it is probed in a child (probe.h), and what is remembered of that.
 *
 * Remembered by content (SHA-256 of Tenon's version, the manifest and what is loaded of the file), in CACHE_DIR/plugins/NAME with the
 * blobs of the plugin (blobcache.h), as JSON:
 *   {"passed": ms, "options": "XXH3 of the options' texts", "date": "..."}   not probed again with the same options
 *   {"quarantined": "crashed in open: ...", "date": "..."}                   not loaded, until retried or another file
 *   {"lifted": "date"}                                                       retried, and it did not misbehave then
 * Only misconduct is quarantined. A refusal (no device, a wrong option) is not remembered: the next start may have it.
 * Without a cache folder, or one that cannot be written, everything works and is probed at each start; the log says so.
 */
#ifndef TENON_PLUGIN_LOAD_FIRST_H
#define TENON_PLUGIN_LOAD_FIRST_H

#include "runtime/plugin/plugin.h"

/* l->content of the manifest's n bytes, then of what is loaded of the file (tni_elfnote_sum). */
void tni_content_begin(tni_loaded *l, const void *yaml, uint64_t n);
void tni_content_end(tni_loaded *l, const uint8_t sum[32]);

/* Probes it where the profile's section or the folder asks for it, and fills what l->info says of that. TN_OK: go on
 * and load it. Else l->info.why is set. */
TN_MUST_CHECK tn_status tni_first_load(const tni_registry_opts *o, tni_loaded *l, const char *so,
                                       const char *profile_file, const tni_profile_plugin *section);

#endif
