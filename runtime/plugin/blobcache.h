/* SPDX-License-Identifier: Apache-2.0
 *
 * host->cache_get/put: small files of compiled kernels and the like, one per key, in CACHE_DIR/plugins/NAME.
 *
 * File: 64-byte header {magic[8], u64 key bytes, u64 data bytes, u64 0, XXH3-128 of the data, u64 0, u64 0}, the whole
 * key padded to 64, the data. The file's name is the XXH3-128 of the key, which the host has already extended by build
 * and device. Written to a temporary file, fsync, rename: a killed writer leaves the old file or none. A file whose
 * header, key or checksum is wrong counts as absent and is removed. Any thread; two processes may put the same key at
 * once.
 */
#ifndef TENON_PLUGIN_BLOBCACHE_H
#define TENON_PLUGIN_BLOBCACHE_H

#include "runtime/base/base.h"

enum { TNI_BLOB_MAX_KEY = 1 << 16, TNI_BLOB_MAX_BYTES = 1 << 30 };

/* dir: CACHE_DIR/plugins/NAME. On success *file is the mapping (the caller unmaps it) and data, n lie in it.
 * TN_E_UNAVAILABLE: absent or damaged. */
TN_MUST_CHECK tn_status tni_blob_get(const char *dir, const void *key, uint64_t nkey, const tni_log *log,
                                     tni_file *file, const void **data, uint64_t *n);
/* The same of a folder whose owner does not count: a bundle's (allow: TNI_TRUST_*). */
TN_MUST_CHECK tn_status tni_blob_get_of(const char *dir, uint32_t allow, const void *key, uint64_t nkey,
                                        const tni_log *log, tni_file *file, const void **data, uint64_t *n);
/* Folders that are missing are made (mode 0700). name: of the plugin, or with a folder below that, "NAME/FOLDER". */
TN_MUST_CHECK tn_status tni_blob_put(const char *cache_dir, const char *name, const void *key, uint64_t nkey,
                                     const void *data, uint64_t n, tn_error *err);

#endif
