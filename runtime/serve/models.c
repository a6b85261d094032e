/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/models, and which model a request means.
 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

static json_t *model_json(const srv_model *m) {
  json_t *j = json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", m->is->name, "object", "model", "created",
                        (json_int_t)m->since, "owned_by", "tenon", "kind", m->is->embeds ? "embedding" : "text");
  json_object_set_new(j, "loaded", json_boolean(m->there));
  if (m->lm) {
    json_object_set_new(j, "context", json_integer(tn_lm_context(m->lm)));
    json_object_set_new(j, "chat", json_boolean(tn_lm_has_template(m->lm)));
    if (tn_lm_has_template(m->lm)) json_object_set_new(j, "tool_calls", json_string(srv_shape_name(m->shape)));
  }
  if (m->placement) json_object_set(j, "placement", m->placement);
  return j;
}

void srv_models(srv_call *c) {
  json_t *list = json_array();
  pthread_mutex_lock(&c->server->models_lock);
  for (size_t i = 0; i < c->server->o->n_models; i++) json_array_append_new(list, model_json(&c->server->model[i]));
  pthread_mutex_unlock(&c->server->models_lock);
  srv_send_json(c, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static srv_model *named(srv_call *c, const char *name) {
  for (size_t i = 0; i < c->server->o->n_models; i++)
    if (strcmp(c->server->model[i].is->name, name) == 0) return &c->server->model[i];
  srv_refuse(&c->refusal, 404, "model_not_found", "model",
             "there is no model '%.100s': GET /v1/models lists what there is", name);
  return NULL;
}

void srv_model_one(srv_call *c) {
  const srv_model *m = named(c, c->url + strlen(c->route->path));
  if (!m) return;
  pthread_mutex_lock(&c->server->models_lock);
  json_t *j = model_json(m);
  pthread_mutex_unlock(&c->server->models_lock);
  srv_send_json(c, 200, j);
}

static srv_model *model_of(srv_call *c, const json_t *body) {
  const char *name = NULL;
  if (!srv_text(&c->refusal, body, "", "model", &name)) return NULL;
  if (name) return named(c, name);
  if (c->server->o->n_models == 1) return &c->server->model[0];
  srv_refuse(&c->refusal, 400, "missing", "model", "'model' is missing, and this server has %zu",
             c->server->o->n_models);
  return NULL;
}

srv_model *srv_lm_of(srv_call *c, const json_t *body) {
  srv_model *m = model_of(c, body);
  if (!m) return NULL;
  if (!m->is->embeds) return srv_model_take(c, m) ? m : NULL;
  srv_refuse(&c->refusal, 400, "unsupported", "model", "'%s' makes embeddings, not text", m->is->name);
  return NULL;
}

srv_model *srv_embedder_of(srv_call *c, const json_t *body) {
  srv_model *m = model_of(c, body);
  if (!m) return NULL;
  if (m->is->embeds) return srv_model_take(c, m) ? m : NULL;
  srv_refuse(&c->refusal, 400, "unsupported", "model",
             "'%s' makes no embeddings: --embedding MODEL serves one that does", m->is->name);
  return NULL;
}
