/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a value is one of a JSON Schema (2020-12, and what older drafts wrote otherwise): arguments of calls are
 * looked at before a client gets them.
 *
 * Keywords that it does not know say nothing: formats, unevaluatedProperties, unevaluatedItems, references that leave
 * the document or name an anchor.
 */
#ifndef TENON_SERVE_SPEECH_VALID_H
#define TENON_SERVE_SPEECH_VALID_H

#include <stdbool.h>

#include "runtime/base/json.h"

/* schema: an object or a boolean; anything else says nothing. Schemas nested or applied too deep, and patterns that
 * take too long, are not satisfied. */
bool srv_valid(const json_t *schema, const json_t *value);

#endif
