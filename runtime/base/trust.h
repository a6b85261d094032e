/* SPDX-License-Identifier: Apache-2.0
 *
 * Who else may change what lies at a path. The rule is that of OpenSSH for its own files, with two exceptions:
 *
 * - a folder, each folder above it up to the root, and each symbolic link on the way belong to root or the current user;
 * - the folder itself may be written by its owner only;
 * - so may each folder above it.
 *
 * The first exception: a folder above it may be written by others where it is sticky (/tmp): there they cannot rename or
 * remove what is not theirs.
 *
 * The second exception: the group may write where its number is the current user's own (not root's), as Debian and
 * Ubuntu give each user a group of his own and a umask of 002. ACLs that let others write show in the group's bits.
 */
#ifndef TENON_BASE_TRUST_H
#define TENON_BASE_TRUST_H

#include <sys/stat.h>

#include "runtime/base/file.h"

/* What is allowed besides: SHARED: others may write (tests). OWNER: any owner (a bundle, whose program is the same
 * owner's and has compared the file with its list). LINK: the last component may be a link. */
enum { TNI_TRUST_SHARED = 1, TNI_TRUST_OWNER = 2, TNI_TRUST_LINK = 4, TNI_TRUST_ANY = 7 };

/* Owner and mode of one file or folder; `what` it is, for the message. TN_E_UNAVAILABLE with the reason. */
TN_MUST_CHECK tn_status tni_trust_stat(const struct stat *s, const char *path, const char *what, uint32_t allow,
                                       tn_error *err);
/* A folder and all that leads to it. The rest of a path that is not there yet is trusted: it will be the current
 * user's. missing may be NULL: then a folder that is not there is an error. TN_E_UNAVAILABLE with the reason. */
TN_MUST_CHECK tn_status tni_trust_folder(const char *dir, uint32_t allow, bool *missing, tn_error *err);
/* Opens a regular file of the kind that tni_trust_stat lets pass, and no link, to read. */
TN_MUST_CHECK tn_status tni_trust_open(const char *path, uint32_t allow, int *fd, tn_error *err);
/* The same, copied to memory. TN_E_LIMIT where it has more than `most` bytes, none of which are read then; `what` it is,
 * for the message. */
TN_MUST_CHECK tn_status tni_trust_read(const char *path, uint32_t allow, uint64_t most, const char *what, tni_file *out,
                                       tn_error *err);
/* The same without a limit, mapped or copied to memory (copy). */
TN_MUST_CHECK tn_status tni_trust_map(const char *path, uint32_t allow, bool copy, tni_file *out, tn_error *err);

#endif
