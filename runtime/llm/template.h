/* SPDX-License-Identifier: Apache-2.0
 *
 * The chat templates of a folder and the special tokens that they name. As in transformers: chat_template.jinja, with
 * additional_chat_templates/NAME.jinja beside it, wins over tokenizer_config.json's chat_template (a text, or a list of
 * {name, template}); chat_template.json and genai_config.json count where neither is there.
 */
#ifndef TENON_LLM_TEMPLATE_H
#define TENON_LLM_TEMPLATE_H

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/folder/folder.h"

enum { TNI_TEMPLATES = 32, TNI_TEMPLATE_NAME = 64 };

typedef struct tni_template {
  char name[TNI_TEMPLATE_NAME];
  char *text;
  size_t n;
} tni_template;

typedef struct tni_templates {
  tni_template v[TNI_TEMPLATES];
  size_t n;
  char *file;      /* where they come from, for messages */
  json_t *special; /* bos_token and the like: variables of each template */
} tni_templates;

/* No template is no error: n is 0. They are parsed when they are used. */
TN_MUST_CHECK tn_status tni_templates_load(const tni_folder *f, tni_templates *out, tn_error *err);
void tni_templates_finish(tni_templates *t);
/* By name; NULL: as tn_messages says. NULL: there is none. */
const tni_template *tni_templates_get(const tni_templates *t, const char *name, bool tools);

#endif
