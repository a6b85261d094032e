/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of a bundle. bundle.json is one JSON object; it ends with TNI_BUNDLE_TAIL, the SHA-256 (64 hex digits) of
 * everything up to there, TNI_BUNDLE_END: so that its own bytes are covered too.
 */
#ifndef TENON_BUNDLE_BUNDLE_H
#define TENON_BUNDLE_BUNDLE_H

#define TNI_BUNDLE_LIST "bundle.json"
#define TNI_BUNDLE_TAIL ",\n \"digest\": \""
#define TNI_BUNDLE_END "\"\n}\n"
enum { TNI_BUNDLE_VERSION = 1 };

#endif
