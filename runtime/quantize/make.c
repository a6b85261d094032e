/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/folder/folder.h"
#include "runtime/llm/tokenizer/tokenizer.h"
#include "runtime/quantize/internal.h"

/* SOLVER: one more where the solver gives other codes, so that a call does not go on with those of an older one. */
enum { PIECE = 512, MEMORY = 256000000, SOLVER = 3 };

static tn_status check_texts(const tni_qz *z) {
  const tn_quantize_opts *o = &z->o;
  if (o->flags & ~(uint32_t)(TN_QUANTIZE_ZEROS | TN_QUANTIZE_ROUND | TNI_QZ_FOLDS | TNI_QZ_FORMS))
    return tni_fail(z->err, TN_E_INVALID, "flags", "unknown flags %u", o->flags);
  if ((!(o->flags & TN_QUANTIZE_ROUND) && !o->n_texts) || (o->n_texts && !o->texts))
    return tni_fail(z->err, TN_E_INVALID, "texts", "texts for calibration are needed");
  if ((o->flags & TN_QUANTIZE_ROUND) && (o->flags & TN_QUANTIZE_SCALES))
    return tni_fail(z->err, TN_E_INVALID, "flags",
                    "scales of channels are for texts, which rounding does not read");
  return TN_OK;
}

static tn_status check_budget(const tni_qz *z) {
  const tn_quantize_opts *o = &z->o;
  if (o->mean_bits > 0 && o->max_bytes)
    return tni_fail(z->err, TN_E_INVALID, "mean_bits", "mean_bits and max_bytes: one of them");
  if (o->flags & ~(uint32_t)(TNI_QZ_FOLDS | TNI_QZ_FORMS))
    return tni_fail(z->err, TN_E_INVALID, "flags", "a budget takes no such flags");
  if (!o->n_texts || !o->texts)
    return tni_fail(z->err, TN_E_INVALID, "texts", "texts are needed: they say which products may be narrow");
  return TN_OK;
}

static tn_status check_options(const tni_qz *z) {
  const tn_quantize_opts *o = &z->o;
  if (!o->model || !o->folder || !*o->folder)
    return tni_fail(z->err, TN_E_INVALID, "tn_quantize_opts", "model and folder are needed");
  const tn_status st = tni_qz_check_embeddings(z);
  if (st) return st;
  if (o->weights && !o->runtime)
    return tni_fail(z->err, TN_E_INVALID, "runtime", "a weight format by its name needs a runtime");
  if ((o->flags & TNI_QZ_FORMS) == TNI_QZ_FORMS)
    return tni_fail(z->err, TN_E_INVALID, "flags", "one form of the file: MatMulNBits or QDQ");
  if (tni_qz_is_mixed(o)) return check_budget(z);
  if (o->weights) return check_texts(z);
  if (o->bits != 2 && o->bits != 3 && o->bits != 4 && o->bits != 8)
    return tni_fail(z->err, TN_E_INVALID, "bits", "bits are 2, 3, 4 or 8, not %u", o->bits);
  if (o->block != 16 && o->block != 32 && o->block != 64 && o->block != 128)
    return tni_fail(z->err, TN_E_INVALID, "block", "block is 16, 32, 64 or 128, not %u", o->block);
  return check_texts(z);
}

/* --- tokens --- */

static tn_status add_sequence(tni_qz *z, const int32_t *ids, size_t n, int32_t bos) {
  tni_qz_tokens *grown = realloc(z->seqs, (z->n_seqs + (size_t)1) * sizeof *grown);
  if (!grown) return tni_fail_memory(z->err, z->path);
  z->seqs = grown;
  int64_t *own = malloc((n + 1) * sizeof *own);
  if (!own) return tni_fail_memory(z->err, z->path);
  size_t m = 0;
  if (bos >= 0 && ids[0] != bos) own[m++] = bos;
  for (size_t i = 0; i < n; i++) own[m++] = ids[i];
  z->seqs[z->n_seqs++] = (tni_qz_tokens){own, (int64_t)m};
  z->tokens += m;
  return TN_OK;
}

/* A text in pieces, each with the token that begins texts. */
static tn_status add_text(tni_qz *z, const tni_tokenizer *t, const char *text, int32_t bos) {
  const size_t piece = z->o.piece ? z->o.piece : PIECE;
  tni_ids ids = {0};
  tn_status st = tni_tokenizer_encode(t, text, strlen(text), true, &ids, z->err);
  for (size_t at = 0; st == TN_OK && at < ids.n;) {
    size_t n = ids.n - at < piece ? ids.n - at : piece;
    if (z->o.max_tokens && z->tokens >= z->o.max_tokens) break;
    if (z->o.max_tokens && z->tokens + n > z->o.max_tokens) n = (size_t)(z->o.max_tokens - z->tokens);
    st = add_sequence(z, ids.v + at, n, bos);
    at += n;
  }
  tni_ids_free(&ids);
  return st;
}

/* bos_token_id of config.json, -1 without one. */
static int32_t read_bos(const tni_folder *f) {
  char *path = tni_folder_file(f, "config.json");
  tni_file text;
  json_t *j = NULL;
  if (path && tni_file_map(path, &text, NULL) == TN_OK) {
    j = json_loadb(text.data, (size_t)text.bytes, 0, NULL);
    tni_file_unmap(&text);
  }
  const json_t *id = json_object_get(j, "bos_token_id");
  const int32_t bos = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
  json_decref(j);
  free(path);
  return bos;
}

static tn_status read_texts(tni_qz *z, const tni_folder *f) {
  char *path = tni_folder_file(f, "tokenizer.json");
  tni_tokenizer *t = NULL;
  tn_status st = path ? tni_tokenizer_load(path, &t, z->err) : tni_fail_memory(z->err, z->path);
  const int32_t bos = read_bos(f);
  for (uint32_t i = 0; st == TN_OK && i < z->o.n_texts; i++) st = add_text(z, t, z->o.texts[i], bos);
  if (st == TN_OK && !z->n_seqs) st = tni_fail(z->err, TN_E_INVALID, "texts", "the texts for calibration are empty");
  tni_tokenizer_destroy(t);
  free(path);
  return st;
}

/* --- folders --- */

/* What the work folder is for: another call's is emptied. */
static tn_status describe_job(tni_qz *z, char *out, size_t n) {
  char hash[TNI_CALIB_HEX + 1], text[TNI_CALIB_HEX + 1] = "";
  const tn_status st = tni_calib_model_hash(z->import->graph, hash, z->err);
  if (st) return st;
  for (uint32_t s = 0; s < z->n_seqs; s++) { /* a chain over all tokens */
    char part[2 * TNI_CALIB_HEX + 1], own[TNI_CALIB_HEX + 1];
    tni_calib_text_hash(z->seqs[s].ids, (size_t)z->seqs[s].n * sizeof(int64_t), own);
    snprintf(part, sizeof part, "%s%s", text, own);
    tni_calib_text_hash(part, strlen(part), text);
  }
  char formats[TNI_CALIB_HEX + 1] = "";
  for (uint32_t i = 0; i < z->n_items; i++) {
    char part[128 + TNI_CALIB_HEX];
    const uint32_t f = z->products[i].format;
    snprintf(part, sizeof part, "%s %s", formats, f == TNI_QZ_FLOAT ? "float" : z->formats[f].name);
    tni_calib_text_hash(part, strlen(part), formats);
  }
  if (z->o.embeddings) {
    char part[128 + TNI_CALIB_HEX];
    snprintf(part, sizeof part, "%s embeddings %.32s", formats, z->o.embeddings);
    tni_calib_text_hash(part, strlen(part), formats);
  }
  for (uint32_t i = 0; tni_qz_is_mixed(&z->o) && i < z->n_formats; i++) {
    char part[128 + TNI_CALIB_HEX];
    snprintf(part, sizeof part, "%s %s", formats, z->formats[i].name);
    tni_calib_text_hash(part, strlen(part), formats);
  }
  snprintf(out, n, "solver %d model %s text %s formats %s round %d ways %u limit %" PRIu64 "\n", SOLVER, hash, text, formats,
           (z->o.flags & TN_QUANTIZE_ROUND) != 0, z->o.flags & TNI_QZ_FOLDS, z->limit);
  return TN_OK;
}

/* What lies in the folder goes, folders in it too. */
static bool clear_folder(const char *path, int depth) {
  DIR *d = opendir(path);
  bool ok = d != NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    char *file = tni_file_in(path, e->d_name);
    ok = file && (unlink(file) == 0 || (depth && clear_folder(file, depth - 1) && rmdir(file) == 0)) && ok;
    free(file);
  }
  if (d) closedir(d);
  return ok;
}

static tn_status empty_folder(const tni_qz *z, const char *path) {
  enum { DEPTH = 8 }; /* of what is written: the stage, its folders */
  if (access(path, F_OK) != 0 || clear_folder(path, DEPTH)) return TN_OK;
  return tni_fail(z->err, TN_E_IO, path, "cannot empty '%s'", path);
}

static tn_status write_text(const tni_qz *z, const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (f) fputs(text, f);
  const int why = f ? tni_close_written(f) : errno;
  return why ? tni_fail(z->err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why))
             : TN_OK;
}

/* The result gets its name by a rename, so that what has the name goes. */
static tn_status free_name(const tni_qz *z) {
  const char *folder = z->o.folder;
  struct stat sb;
  if (lstat(folder, &sb) != 0) return TN_OK;
  if (!S_ISDIR(sb.st_mode)) return tni_fail(z->err, TN_E_INVALID, folder, "'%s' is there and is no folder", folder);
  if (rmdir(folder) == 0) return TN_OK;
  if (errno == ENOTEMPTY || errno == EEXIST)
    return tni_fail(z->err, TN_E_INVALID, folder, "'%s' is there and is no empty folder", folder);
  if (errno == EINVAL) /* it ends with a dot */
    return tni_fail(z->err, TN_E_INVALID, folder, "'%s' cannot be replaced: give the folder by its name", folder);
  return tni_fail(z->err, tni_errno_status(errno, TN_E_IO), folder, "cannot replace '%s': %s", folder,
                  strerror(errno));
}

static tn_status open_work(tni_qz *z) {
  char job[512], there[512] = "";
  tn_status st = describe_job(z, job, sizeof job);
  if (st == TN_OK) st = free_name(z);
  if (st) return st;
  size_t n = strlen(z->o.folder);
  while (n > 1 && z->o.folder[n - 1] == '/') n--;
  if (asprintf(&z->work, "%.*s.partial", (int)n, z->o.folder) < 0) return tni_fail_memory(z->err, z->path);
  const int why = tni_make_folder(z->work);
  if (why)
    return tni_fail(z->err, tni_errno_status(why, TN_E_IO), z->work, "cannot make '%s': %s", z->work, strerror(why));
  char *file = tni_file_in(z->work, "job");
  if (!file) return tni_fail_memory(z->err, z->path);
  FILE *f = fopen(file, "rb");
  if (f) {
    there[fread(there, 1, sizeof there - 1, f)] = 0;
    fclose(f);
  }
  if (strcmp(job, there) != 0) {
    st = empty_folder(z, z->work);
    if (st == TN_OK) st = write_text(z, file, job);
  }
  free(file);
  return st;
}

static tn_status begin_spill(tni_qz *z) {
  char *path = tni_file_in(z->work, "activations");
  const tn_status st = path ? tni_spill_init(&z->spill, path, z->o.memory ? z->o.memory : MEMORY, z->err)
                            : tni_fail_memory(z->err, z->path);
  free(path);
  return st;
}

static tn_status copy_file(const tni_qz *z, const char *from, const char *to) {
  tni_file f;
  tn_status st = tni_file_map(from, &f, z->err);
  if (st) return st;
  FILE *out = fopen(to, "wb");
  if (out && f.bytes) fwrite(f.data, 1, (size_t)f.bytes, out);
  const int why = out ? tni_close_written(out) : errno;
  tni_file_unmap(&f);
  return why ? tni_fail(z->err, tni_errno_status(why, TN_E_IO), to, "cannot write '%s': %s", to, strerror(why)) : TN_OK;
}

typedef struct staging {
  const tni_qz *z;
  const char *stage;
} staging;

static tn_status copy_companion(void *ctx, const char *path, const char *name) {
  const staging *s = ctx;
  char *to = tni_file_in(s->stage, name), *dir = to ? strdup(to) : NULL;
  tn_status st = dir ? TN_OK : tni_fail_memory(s->z->err, path);
  if (dir) *strrchr(dir, '/') = 0;
  const int why = dir ? tni_make_folder(dir) : 0;
  if (why) st = tni_fail(s->z->err, tni_errno_status(why, TN_E_IO), dir, "cannot make '%s': %s", dir, strerror(why));
  if (st == TN_OK) st = copy_file(s->z, path, to);
  free(to);
  free(dir);
  return st;
}

static tn_status write_notes(tni_qz *z, const char *stage) {
  char *path = tni_file_in(stage, "quantize.json");
  const tn_status st = path ? write_text(z, path, z->notes) : tni_fail_memory(z->err, z->path);
  free(path);
  return st;
}

static tn_status publish(tni_qz *z, const tni_folder *f) {
  char *stage = tni_file_in(z->work, "folder");
  if (!stage) return tni_fail_memory(z->err, z->path);
  tn_status st = empty_folder(z, stage);
  if (st == TN_OK && mkdir(stage, 0777) != 0 && errno != EEXIST)
    st = tni_fail(z->err, TN_E_IO, stage, "cannot make '%s': %s", stage, strerror(errno));
  if (st == TN_OK) st = tni_qz_write(z, stage);
  if (st == TN_OK && z->notes) st = write_notes(z, stage);
  if (st == TN_OK) st = tni_folder_companions(f, copy_companion, &(staging){z, stage}, z->err);
  if (st == TN_OK && rename(stage, z->o.folder) != 0)
    st = tni_fail(z->err, TN_E_IO, z->o.folder, "cannot give the folder its name '%s': %s", z->o.folder,
                  strerror(errno));
  if (st == TN_OK && empty_folder(z, z->work) == TN_OK) (void)rmdir(z->work);
  free(stage);
  return st;
}

/* --- the whole --- */

/* One for all, or what a budget chooses. */
static tn_status choose_formats(tni_qz *z) {
  uint32_t f = 0;
  if (tni_qz_is_mixed(&z->o)) return tni_qz_mix_begin(z);
  tn_status st = z->o.weights
                           ? tni_qz_format_named(z, z->o.weights, &f)
                           : tni_qz_format_uniform(z, z->o.bits, z->o.block, z->o.flags & TN_QUANTIZE_ZEROS, &f);
  for (uint32_t i = 0; i < z->n_products; i++) z->products[i].format = f;
  if (st == TN_OK) st = tni_qz_check_portable(z);
  return st == TN_OK ? tni_qz_choose_table(z) : st;
}

static tn_status round_all(tni_qz *z) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < z->n_items; i++) {
    tni_qz_solved s = {0};
    if (z->products[i].format == TNI_QZ_FLOAT) continue;
    if (tni_qz_codes_of(z, i) == i) st = tni_qz_solve(z, i, NULL, &s);
    if (st == TN_OK) tni_qz_solved_finish(&s);
    z->n_done++;
  }
  return st;
}

static tn_status quantize(tni_qz *z, const tni_folder *f) {
  const bool round = z->o.flags & TN_QUANTIZE_ROUND;
  tn_status st = tni_qz_import(z, &z->import);
  if (st == TN_OK) st = tni_qz_find_products(z);
  if (st == TN_OK && !round) st = tni_qz_import(z, &z->floats);
  if (st == TN_OK) st = choose_formats(z);
  if (st == TN_OK && !round) st = read_texts(z, f);
  if (st == TN_OK) st = open_work(z);
  if (st == TN_OK) st = begin_spill(z);
  if (st != TN_OK) return st;
  z->pool = tni_pool_create(z->o.threads);
  if (!z->pool) return tni_fail_memory(z->err, z->path);
  tni_pool_run_init(&z->run, z->pool, NULL);
  st = tni_qz_fold(z);
  if (st == TN_OK && tni_qz_is_mixed(&z->o)) st = tni_qz_mix(z);
  if (st == TN_OK) st = round ? round_all(z) : tni_qz_walk(z);
  return st == TN_OK ? publish(z, f) : st;
}

tn_status tn_quantize(const tn_quantize_opts *o, tn_error *err) {
  tn_error own;
  tni_folder f = {0};
  tni_qz z = {.err = err ? err : &own};
  tni_error_begin(err);
  tni_error_init(&own);
  tn_status st = tni_take(&z.o, sizeof z.o, o, "tn_quantize_opts", z.err);
  if (st == TN_OK) st = check_options(&z);
  if (st == TN_OK) st = tni_folder_find(z.o.model, z.o.model_file, &f, z.err);
  if (st != TN_OK) return st;
  z.path = f.model;
  st = quantize(&z, &f);
  tni_pool_destroy(z.pool);
  for (uint32_t i = 0; i < z.n_seqs; i++) free(z.seqs[i].ids);
  free(z.seqs);
  tni_spill_finish(&z.spill);
  free(z.products);
  free(z.work);
  free(z.folded);
  json_decref(z.fold_notes);
  free(z.notes);
  for (uint32_t i = 0; i < z.n_formats; i++) tni_quant_grid_finish(&z.formats[i].grid);
  tni_model_destroy(z.import);
  tni_model_destroy(z.floats);
  tni_folder_finish(&f);
  return st;
}
