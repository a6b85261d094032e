/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/tenon.h: the application API.
 *
 *   tn_runtime   devices opened from a profile. Any thread; outlives its models.
 *   tn_model     a loaded, placed and packed model. Immutable; any thread; outlives its sessions.
 *   tn_session   memory for one use of a model. One call at a time; tn_session_cancel from any thread. Two sessions of
 *                one model share its weights and may run at once.
 *   tn_lm        a language model folder: model + tokenizer + generation defaults, with sessions of its own.
 *
 * Nothing prints and nothing reads the environment. Every function that can fail returns a status and fills a
 * caller-owned tn_error (may be NULL; what an earlier call left in it is overwritten); outputs are untouched on
 * failure. Strings are UTF-8, terminated.
 *
 * TN_API_* is the version of this header, tasks.h and bundle.h. The plugins' ABI has one of its own (tenon/plugin.h): an
 * application need not care which plugins are there.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

#define TN_API_MAJOR 1
#define TN_API_MINOR 0
/* The header of a struct of this API, as an initializer: {.h = TN_API_HDR(tn_runtime_opts), ...}. */
#define TN_API_HDR(type) { (uint32_t)sizeof(type), TN_API_MAJOR, TN_API_MINOR }

typedef struct tn_runtime tn_runtime;
typedef struct tn_model tn_model;
typedef struct tn_session tn_session;
typedef struct tn_lm tn_lm;

/* "0.1.0" */
TN_API const char *tn_version(void);
/* "OK", "INVALID", ... */
TN_API const char *tn_status_name(tn_status st);
TN_API const char *tn_dtype_name(tn_dtype dt);
/* Needed once; each call that takes a tn_error empties it first. */
TN_API void tn_error_init(tn_error *e);
TN_API void tn_long_error_init(tn_long_error *e);
/* The whole message of a tn_long_error; of a plain tn_error its `message`. NULL gives "". Lives as long as *e. */
TN_API const char *tn_error_text(const tn_error *e);

/* --- runtime ----------------------------------------------------------------------------------------------------- */

typedef struct tn_runtime_opts {
  tn_hdr h;
  const char *profile;             /* name or file; NULL: "default" */
  const char *const *profile_dirs; /* searched before the installed folder */
  const char *const *plugin_dirs;  /* searched before the profile's and the installed folder; absolute */
  const char *cache_dir;           /* packed weights; NULL: what the profile says, else uncached */
  uint32_t n_profile_dirs, n_plugin_dirs;
  uint32_t threads; /* 0: what the profile says */
  uint32_t log_level;
  void (*log)(void *user, uint32_t level, const char *line); /* any thread; NULL: silence */
  void *log_user;
  /* Packing progress; NULL: none. */
  void (*progress)(void *user, const char *what, uint64_t done_bytes, uint64_t total_bytes);
  void *progress_user;
  uint32_t flags, reserved; /* TN_RT_* */
  /* Activation statistics of the model (docs/calibration.md); NULL: what the profile says. "": none. */
  const char *calibration;
  /* Absolute path of the program tenon-helper, in which plugins are probed; NULL: where it is installed. */
  const char *helper;
  /* A plugin that is probed anew, whatever is remembered of it; NULL: none. */
  const char *retry;
  /* Processors that the threads run on, such as "0,2-3", or "big": those that are no little cores (docs/profiles.md). NULL:
   * what the profile says. With threads 0: as many as these. */
  const char *cpus;
} tn_runtime_opts;
enum {
  TN_RT_SCAN = 1,          /* load every plugin found, for tn_runtime_report */
  TN_RT_PRIVILEGED = 2,    /* the process is privileged: no overrides */
  TN_RT_TEST_WRITABLE = 4, /* tests: plugin folders that others may write are accepted */
  TN_RT_CHECKED = 8,       /* plugins are told TN_HOST_CHECKED, as by `checked: true` in a profile */
  /* Bundles (tenon/bundle.h). SEALED: cache_dir holds everything packed and is only read, and no folder is searched but
   * the caller's and the profile's. PORTABLE: packed files say nothing of this machine. OFFLINE: devices that cannot
   * run here, but claim and pack, count also where the profile could do without their plugin. */
  TN_RT_SEALED = 16,
  TN_RT_PORTABLE = 32,
  TN_RT_OFFLINE = 64,
  /* No plugin is probed in a child first but those whose profile says `probe: isolated`: for programs that ship no
   * tenon-helper or may start none (docs/security.md). */
  TN_RT_NO_PROBE = 128,
  /* Where the profile has plugins in processes of their own: the calling process becomes one whose memory no other of
   * the same user may read or write, and that leaves no core dump (Linux: PR_SET_DUMPABLE 0), before the first of them
   * starts. It stays so. Without the flag Tenon changes no attribute of the process. */
  TN_RT_UNDUMPABLE = 256,
  /* A handler of SIGBUS for the process, which stays until it ends. It looks only at the files that Tenon has mapped:
   * where one was cut short while it is in use, the call that read it returns TN_E_IO and names it. Any other SIGBUS
   * goes to the handler that was there before. Without the flag such a file ends the process; `map: copy` in the
   * profile needs neither. */
  TN_RT_GUARD_FILES = 512
};

TN_API TN_MUST_CHECK tn_status tn_runtime_create(const tn_runtime_opts *o, tn_runtime **out, tn_error *err);
TN_API void tn_runtime_destroy(tn_runtime *rt);
/* Binds the calling thread to the processors that options or profile name; where they name none, nothing happens. A
 * thread that runs sessions does a share of the work beside the pool's, wherever it is. TN_E_UNAVAILABLE: the system
 * refuses. */
TN_API TN_MUST_CHECK tn_status tn_runtime_bind_thread(const tn_runtime *rt, tn_error *err);
/* From any thread, and from a signal handler: the tn_model_load or tn_lm_load under way, packing included, returns
 * TN_E_CANCELLED soon, or the next one where none is. No file is left half written. */
TN_API void tn_runtime_cancel(tn_runtime *rt);
/* JSON of plugins, devices, formats and why others were not loaded. Returned string: tn_free. */
TN_API TN_MUST_CHECK tn_status tn_runtime_report(tn_runtime *rt, char **json, tn_error *err);
/* How many devices were lost while they were in use (a crash of a plugin in a process of its own, a device that was
 * gone or hung). Models are placed again with what is left of the profile then, and sessions go on with the caches that
 * they have (docs/isolation.md). last: a line about the last one, or NULL; lives with rt. Any thread. */
TN_API uint32_t tn_runtime_losses(const tn_runtime *rt, const char **last);
TN_API void tn_free(void *p);

/* --- model ------------------------------------------------------------------------------------------------------- */

enum { TN_DEFAULT_MAX_SEQ = 2048 };
typedef struct tn_model_opts {
  tn_hdr h;
  uint32_t flags, reserved; /* TN_MODEL_* */
  int64_t max_seq;          /* 0: what the profile says; language models then take TN_DEFAULT_MAX_SEQ at most */
  /* Dims for the memory statement: n_dims symbol names and values. Copied. */
  const char *const *dim_names;
  const int64_t *dim_values;
  uint32_t n_dims, reserved2;
  /* Passes to leave out, by name. Copied. */
  const char *const *disabled_passes;
  uint32_t n_disabled_passes, reserved3;
  /* For tests: not 0 runs tasks in random orders that the task graph allows, instead of the planned one. */
  uint64_t order_seed;
  int64_t default_max_seq; /* where neither max_seq nor the profile says one; 0: none */
  /* Initializers that are graph inputs too and that runs may give: they are inputs then, and what the model has for them
   * is their value in a run that does not give them (ONNX, IR version 4 and later; TN_E_INVALID for older models).
   * Without this they are constants, which devices pack. Other names among them mean nothing. Copied. */
  const char *const *overridable;
  uint32_t n_overridable, reserved4;
} tn_model_opts;
enum {
  TN_MODEL_INSPECT = 1,   /* stop before packing: reports only, no session */
  TN_MODEL_REFERENCE = 2, /* sessions compute with unpack(pack(W)) and declared numerics on the host */
  TN_MODEL_CAPTURE = 4,   /* sessions check every plugin task against the format reference while they run */
  TN_MODEL_CALIBRATE = 8, /* sessions record activations: tn_model_calibration_* */
  TN_MODEL_UNREAD = 32, /* with INSPECT: no constant over 1 KiB is read. Nodes as the model has them, without passes but
                         * for the folding of small constants; the check report says what nobody takes */
  /* As a decoder that is run step by step, which tn_lm_load asks for: inputs that choose what is computed are fixed and
   * no inputs any more. use_cache_branch is true, where that branch is seen to give with an empty past what the other
   * one gives; num_logits_to_keep is 0, all. Without the flag the model is as its file says. */
  TN_MODEL_DECODER = 64,
  /* What comes before the decoder at path in an encoder-decoder model, which tn_lm_load asks for: the encoder beside it
   * (encoder_model.onnx) and what the decoder makes of its output once. Inputs: input_ids [batch, positions] and, where
   * the encoder has it, attention_mask; outputs: present.N.encoder.key and .value, which the decoder, loaded with
   * TN_MODEL_DECODER, reads as past_key_values.N.encoder.key and .value. TN_E_UNAVAILABLE: there is no such file.
   * TN_E_UNSUPPORTED: the encoder reads images or sound, or the decoder with an empty past is not seen to be the one
   * without a past. */
  TN_MODEL_SOURCE = 128,
  TN_MODEL_PACK = 16 /* stop after packing: reports only, no session. Devices that cannot run (offline) may pack */
};

/* path: a .onnx file, or a folder with one in it or in onnx/ below it (docs/folders.md). TN_E_UNSUPPORTED names the
 * first node that nobody takes; with TN_MODEL_INSPECT loading succeeds even then and the check report lists them all.
 */
TN_API TN_MUST_CHECK tn_status tn_model_load(tn_runtime *rt, const char *path, const tn_model_opts *o, tn_model **out,
                                             tn_error *err);
TN_API void tn_model_destroy(tn_model *m);
/* The .onnx file that a path stands for in every function that takes a model's path. file: its name, in the folder or
 * in onnx/ below it; NULL: the one that is meant without a name. *out: tn_free it. TN_E_INVALID lists several files of
 * which none is meant, TN_E_UNAVAILABLE says what was looked for and where. */
TN_API TN_MUST_CHECK tn_status tn_model_find(const char *path, const char *file, char **out, tn_error *err);

enum {
  TN_REPORT_CHECK = 1,
  TN_REPORT_INSPECT = 2,
  TN_REPORT_CALIBRATION = 3,
  TN_REPORT_PACK = 4,        /* what was packed or mapped, by device */
  TN_REPORT_PACK_ERRORS = 5, /* and how far each matrix is from what the model says: reads them all */
  TN_REPORT_WEIGHTS = 6, /* what weights and caches are, by format and source; weights compared on two blocks of rows */
  TN_REPORT_WEIGHTS_ALL = 7, /* the same, on all rows */
  TN_REPORT_PLACEMENT = 8    /* TN_REPORT_CHECK without its list of nodes: a few hundred bytes of any model */
};
/* JSON in the shapes of the commands check, inspect, calibrate and pack. tn_free it. */
TN_API TN_MUST_CHECK tn_status tn_model_report(tn_model *m, uint32_t what, char **json, tn_error *err);
/* Packs every constant matrix of the model's products with one weight format of any plugin that is loaded, in memory
 * and one by one, unpacks it and says how far off it is: JSON as of `tenon pack --format F --report`. No device is
 * needed; TN_MODEL_INSPECT is enough. params: the format's, n of them. TN_E_INVALID: nobody states such a format, or it
 * takes other params. */
TN_API TN_MUST_CHECK tn_status tn_model_format_report(tn_model *m, const char *format, const int64_t *params,
                                                      uint32_t n, char **json, tn_error *err);
/* Writes the graph: format "dot" or "text". */
TN_API TN_MUST_CHECK tn_status tn_model_dump(tn_model *m, const char *format, const char *path, tn_error *err);

/* --- calibration (docs/calibration.md): load with TN_MODEL_CALIBRATE, run a text, tn_model_calibration_next, run the
 * same text again, save. Every run of every session of the model counts. */
/* Ends the first pass. TN_E_INVALID: it has ended, or the model does not record. */
TN_API TN_MUST_CHECK tn_status tn_model_calibration_next(tn_model *m, tn_error *err);
/* What was run: a name for people, the bytes that are hashed, tokens. */
typedef struct tn_calibration_text {
  tn_hdr h;
  const char *name;
  const void *bytes;
  uint64_t n_bytes, tokens;
  const char *options; /* what else decides which rows run, for keep and resume; NULL: nothing */
  uint64_t done;       /* the caller's count of what has run in this pass, for keep */
} tn_calibration_text;
/* Writes the YAML file; a file that is there is replaced as a whole, or kept. TN_E_INVALID: the passes differ, or there
 * was one only. */
TN_API TN_MUST_CHECK tn_status tn_model_calibration_save(tn_model *m, const tn_calibration_text *text, const char *path,
                                                         tn_error *err);
/* Writes what was recorded so far as one file with checksums, PATH.tmp first, which replaces one at path as a whole or
 * leaves it: for a process that may be stopped. It is for this model with the passes that it was loaded with, this text
 * and these options, and for machines of this byte order. Not while a session of m runs, nor after a run that failed,
 * which may have counted in part. TN_E_IO with the system's reason. */
TN_API TN_MUST_CHECK tn_status tn_model_calibration_keep(tn_model *m, const tn_calibration_text *text, const char *path,
                                                         tn_error *err);
/* m, of which nothing has run yet, goes on where the one that was kept ended: what is saved at the end has the same
 * bytes. *pass: 1, or 2 where tn_model_calibration_next came before; *done: of tn_calibration_text. TN_E_UNAVAILABLE,
 * TN_E_IO: the file is not there, or cannot be read. TN_E_CORRUPT: it is damaged, or no such file. TN_E_INVALID: it is of
 * another model, other passes, another text or other options, or m has recorded something. Nothing changes then. */
TN_API TN_MUST_CHECK tn_status tn_model_calibration_resume(tn_model *m, const tn_calibration_text *text, const char *path,
                                                           uint32_t *pass, uint64_t *done, tn_error *err);

/* An input or output. dims[i] -1 where symbolic, then dim_names[i] says how; rank -1 unknown. Lives with the model. */
typedef struct tn_io_info {
  tn_hdr h;
  const char *name;
  tn_dtype dtype;
  int32_t rank;
  int64_t dims[TN_MAX_RANK];
  const char *dim_names[TN_MAX_RANK];
  const struct tn_tensor *value; /* of an input that a run may leave out: what it is then; NULL: it must be given */
} tn_io_info;
/* Longest context that the options or the profile allow; 0: neither says. */
TN_API int64_t tn_model_max_seq(const tn_model *m);
TN_API uint32_t tn_model_n_inputs(const tn_model *m);
TN_API uint32_t tn_model_n_outputs(const tn_model *m);
/* NULL past the end. */
TN_API const tn_io_info *tn_model_input(const tn_model *m, uint32_t i);
TN_API const tn_io_info *tn_model_output(const tn_model *m, uint32_t i);

/* --- session ----------------------------------------------------------------------------------------------------- */

/* A dense row-major tensor in memory of its owner. */
typedef struct tn_tensor {
  tn_hdr h;
  const char *name;
  tn_dtype dtype;
  uint32_t rank;
  int64_t dims[TN_MAX_RANK];
  const void *data;
  uint64_t bytes;
} tn_tensor;

/* Sequences and optionals: dtypes of a tn_tensor and of a tn_io_info that no device sees. Such a value has rank 1 and
 * dims[0] elements (an optional: none or one), data points to dims[0] pointers to tn_tensor, bytes is what these
 * pointers take; an optional's element may be a sequence. What the elements are, each of them says; a tn_io_info has
 * rank -1. */
enum { TN_DT_SEQUENCE = 256, TN_DT_OPTIONAL = 257 };

/* Reads a tensor file: .npy (NumPy, versions 1 to 3, C order) or .pb (ONNX TensorProto). *out is one allocation with
 * its data; tn_free it. name: the TensorProto's, else NULL. */
TN_API TN_MUST_CHECK tn_status tn_tensor_load(const char *path, tn_tensor **out, tn_error *err);
/* The same for what an input or output of dtype `as` (tn_io_info) is stored as: ONNX SequenceProto and OptionalProto
 * for the two above, which only who knows the type can tell apart; any other dtype: tn_tensor_load. Elements lie in the
 * one allocation. */
TN_API TN_MUST_CHECK tn_status tn_value_load(const char *path, tn_dtype as, tn_tensor **out, tn_error *err);
/* Writes .npy or .pb, by the path's ending. Tensors only. */
TN_API TN_MUST_CHECK tn_status tn_tensor_save(const tn_tensor *t, const char *path, tn_error *err);

TN_API TN_MUST_CHECK tn_status tn_session_create(tn_model *m, tn_session **out, tn_error *err);
TN_API void tn_session_destroy(tn_session *s);
/* Runs the model once. in: by name, each input exactly once, memory of the caller during the call. out: n_out tensors
 * whose names the caller sets (or all of the model's, in order, when out[i].name is NULL); filled with memory of the
 * session that stays valid until the next run. phase: TN_PHASE_*. */
TN_API TN_MUST_CHECK tn_status tn_session_run(tn_session *s, uint32_t phase, const tn_tensor *const *in, uint32_t n_in,
                                              tn_tensor *out, uint32_t n_out, tn_error *err);
/* From any thread: the running call returns TN_E_CANCELLED soon, or the next one where none runs; the session stays
 * usable. */
TN_API void tn_session_cancel(tn_session *s);

/* --- caches in place: a session that keeps what a decoder needs from step to step.
 *
 * Where tn_model_has_cache says so, tn_session_keep makes the session the owner of the caches: every past input, and
 * every input that has one entry per position of the whole context (attention_mask [batch, past + sequence]). All
 * memory of the session is allocated then; a step allocates nothing. A step appends its rows to the caches where they
 * lie.
 */
/* Nonzero: all past inputs became caches, and a session can keep them. */
TN_API int tn_model_has_cache(const tn_model *m);
typedef struct tn_keep_opts {
  tn_hdr h;
  int64_t batch;    /* sequences; 0: 1 */
  int64_t capacity; /* positions that the caches hold; 0: tn_model_max_seq, which must say something then */
  int64_t max_step; /* most positions of one step; 0: the profile's prefill_chunk, or capacity where it says nothing.
                     * A device that takes one length only: shorter steps are padded up to it, longer ones are several
                     * pieces at once (0: as long as the capacity) */
  uint32_t flags, reserved; /* TN_KEEP_* */
} tn_keep_opts;
enum { TN_KEEP_SLOTS = 1 /* sequences have lengths of their own: tn_session_step_slots */ };
/* TN_E_UNSUPPORTED: the model has no caches that can be kept. TN_E_NO_MEMORY with the bytes. Once per session; one
 * that fails leaves the session as it was, so that less may be asked for. */
TN_API TN_MUST_CHECK tn_status tn_session_keep(tn_session *s, const tn_keep_opts *o, tn_error *err);
/* Runs one step. in[i] is the tensor of model input i, out[i] of model output i (their count is the model's).
 * in[i] is NULL for past inputs. An input that has no axis of positions, such as the keys and values that a decoder
 * reads of its encoder, may be NULL once it was given: it stays as it is, where it is, until it is given again. An
 * input over the whole context takes its entries for this step's positions only
 * ([batch, n]); NULL: ones. Where a model counts a sequence's rows from it (GroupQueryAttention), its zeros are on the
 * right, within the session's first step: a sequence goes on after its last one. out[i] NULL: not wanted; present
 * outputs cannot be asked for. rows: 1 for the logits of the last position only, 0 for all. Outputs are memory of the
 * session until its next call. TN_E_LIMIT: the capacity is reached, or n > max_step. A step that fails changes nothing,
 * unless it was several pieces (max_step): those that ran may have taken the place in rings of what was there before.
 * Then steps and tn_session_truncate to that length give TN_E_LIMIT, and only going back to 0 is sure.
 * Where phases have placements of their own, one position is decoded and more are prefilled, whatever phase says.
 * Where a model has other rotary tables for long texts (LongRoPE), those for the length with this step are taken: a
 * prompt past that limit is one step, and a text that grows past it is run again from 0. What mixes both is logged
 * once. */
TN_API TN_MUST_CHECK tn_status tn_session_step(tn_session *s, uint32_t phase, const tn_tensor *const *in,
                                               tn_tensor *const *out, uint32_t rows, tn_error *err);
/* Most positions of one step. */
TN_API int64_t tn_session_max_step(const tn_session *s);
/* Positions in the caches. */
TN_API int64_t tn_session_length(const tn_session *s);
/* Forgets all positions from n on. TN_E_INVALID: there are not so many. TN_E_LIMIT: a cache is a ring (kv_ring of the
 * profile) that does not hold any more what the position n looks back to, or the model has states of fixed size (short
 * convolutions, state space, linear attention), which cannot be taken apart: these go back to 0, and to where the last
 * step of more than one position began. n 0 is always right. Nothing changes then: truncate to 0 and run the tokens
 * again. */
TN_API TN_MUST_CHECK tn_status tn_session_truncate(tn_session *s, int64_t n, tn_error *err);
/* dst, a keeping session of the same model and batch, starts anew with the first n positions of src. TN_E_LIMIT as
 * above. */
TN_API TN_MUST_CHECK tn_status tn_session_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err);
/* Writes what s, which keeps its caches, has of its positions, and n_note bytes of the caller: one file with checksums,
 * which replaces one at path as a whole or leaves it. It is for this model, with weights packed and caches kept as here,
 * and for machines of this byte order. TN_E_UNSUPPORTED: a cache lies in a form that only its device reads, or the
 * sequences have lengths of their own. TN_E_IO with the system's reason. */
TN_API TN_MUST_CHECK tn_status tn_session_save(tn_session *s, const char *path, const void *note, uint64_t n_note,
                                               tn_error *err);
/* s, a keeping session of the same batch, goes on where the one that was saved ended; results are equal bit for bit.
 * note: the caller's bytes, n_note of them; tn_free it. TN_E_UNAVAILABLE, TN_E_IO: the file cannot be read.
 * TN_E_CORRUPT: it is no such file, or not whole. TN_E_INVALID: it is of another model, of other packed weights or caches,
 * or of another batch. TN_E_LIMIT: it has more positions than s holds. Nothing changes then. Another failure is a
 * device's, and s has no positions. */
TN_API TN_MUST_CHECK tn_status tn_session_load(tn_session *s, const char *path, void **note, uint64_t *n_note,
                                               tn_error *err);

/* --- sequences of lengths of their own: a session that was kept with TN_KEEP_SLOTS. Its `batch` sequences are slots, and
 * a step runs some that lie side by side: products read their weights once for all of them. Each slot's results are those
 * of a session of its own; where a device computes one row of a product otherwise than several (docs/batching.md), they
 * may differ in their last bits. */
/* Nonzero: caches can be kept with TN_KEEP_SLOTS. Not where a result depends on the length of the past by another way
 * than positions that the caller gives, masks and caches. */
TN_API int tn_model_has_slots(const tn_model *m);
/* tn_session_step for slots [first, first + count): inputs and outputs have `count` sequences. All run as many
 * positions, each after its own; inputs over the whole context are NULL. TN_E_LIMIT also where one of them has no room.
 * A step that fails changes nothing. */
TN_API TN_MUST_CHECK tn_status tn_session_step_slots(tn_session *s, uint32_t first, uint32_t count,
                                                     const tn_tensor *const *in, tn_tensor *const *out, uint32_t rows,
                                                     tn_error *err);
/* Positions of a slot; 0: there is no such slot. */
TN_API int64_t tn_session_slot_length(const tn_session *s, uint32_t slot);
/* tn_session_truncate for one slot. States of fixed size go back to 0 only. */
TN_API TN_MUST_CHECK tn_status tn_session_slot_truncate(tn_session *s, uint32_t slot, int64_t n, tn_error *err);
/* Slot `to` starts anew with the first n positions of `from`, another one. TN_E_LIMIT as in tn_session_truncate. */
TN_API TN_MUST_CHECK tn_status tn_session_slot_copy(tn_session *s, uint32_t to, uint32_t from, int64_t n,
                                                    tn_error *err);

/* What a TN_MODEL_CAPTURE session found: JSON with, per plugin task, the largest |device - reference| / bound. */
TN_API TN_MUST_CHECK tn_status tn_session_capture_report(tn_session *s, char **json, tn_error *err);
/* From now on the first plugin task that leaves its bound is written to folder, which is made: model.onnx of its nodes
 * with their constants, test_data_set_0 with its inputs and what the reference gave, device with what the device gave,
 * case.json. `tenon conform PLUGIN.so --replay FOLDER` runs it. A KV cache stands there as a plain tensor.
 * TN_MODEL_CAPTURE only. */
TN_API TN_MUST_CHECK tn_status tn_session_capture_case(tn_session *s, const char *folder, tn_error *err);

/* One executed task; times in ns of `clock`: 0 the host's monotonic one, 1 (TN_CLOCK_DEVICE) a device's own, 2
 * (TN_CLOCK_VIRTUAL) a simulated device's, on which CPU tasks appear too, on the track "plugin:cpu" of that device. */
typedef struct tn_trace_event {
  tn_hdr h;
  const char *track; /* "host:cpu", "cpu-avx2-lut:cpu", "opencl-adreno:gpu" */
  const char *name;  /* node or task */
  int64_t start, end;
  uint64_t bytes;
  uint32_t step, clock;
  const char
      *ops; /* operators of the task's nodes, each once: "MatMul Add"; "": the plugin named no nodes. The model's */
} tn_trace_event;
/* fn is called on the running thread after each task; NULL switches it off. */
TN_API void tn_session_trace(tn_session *s, void (*fn)(void *user, const tn_trace_event *e), void *user);

/* --- language models --------------------------------------------------------------------------------------------- */

typedef struct tn_lm_opts {
  tn_hdr h;
  uint32_t model_flags, reserved; /* TN_MODEL_* */
  int64_t max_seq;                /* positions; 0: what the profile says. At most what config.json says */
  uint64_t order_seed;            /* as in tn_model_opts */
  /* Where neither says: at most as many, 0: TN_DEFAULT_MAX_SEQ. The library does not look at how much memory the
   * machine has; who wants all that the model was made for gives tn_lm_longest here. */
  int64_t default_max_seq;
} tn_lm_opts;

/* Added to the logit of a token before all else; -INFINITY: never. */
typedef struct tn_logit_bias {
  int32_t id;
  float bias;
} tn_logit_bias;

/* What a caller's function sees before each token (tn_gen_params.hook). */
typedef struct tn_logits {
  tn_hdr h;
  float *v;            /* [vocab], the model's; may be changed. -INFINITY: not this token */
  size_t vocab, n;     /* n: tokens of the conversation */
  const int32_t *ids;  /* [n], until the function returns */
  uint32_t new_tokens; /* as many of them, at the end, came from this call */
  uint32_t left;       /* tokens that may follow, the next one included; UINT32_MAX: no limit */
} tn_logits;
/* Called on the generating thread. Nonzero: the call fails with TN_E_CANCELLED. */
typedef int (*tn_logits_fn)(void *user, tn_logits *at);

/* The order in which these work is in docs/sampling.md. */
typedef struct tn_gen_params {
  tn_hdr h;
  uint32_t max_tokens;  /* 0: until EOS, a stop string or the context's end */
  uint32_t top_k;       /* 0: off */
  float temperature;    /* 0: greedy */
  float top_p, min_p;   /* 1 / 0: off */
  float repeat_penalty; /* 1: off */
  uint64_t seed;
  const char *const *stop;
  uint32_t n_stop;
  uint32_t flags; /* TN_GEN_* */
  /* From here on 0 and NULL are off. */
  const struct tn_grammar *grammar; /* what the text of this call is (tenon/lm.h); outlives the call */
  tn_logits_fn hook;
  void *hook_user;
  const tn_logit_bias *bias; /* [n_bias] */
  uint32_t n_bias;
  uint32_t min_tokens;                       /* no EOS before as many, unless the grammar ends */
  float frequency_penalty, presence_penalty; /* per occurrence, and once, in what this call has generated */
  float typical_p;                  /* below 1: the tokens nearest to the expected surprise, of this probability */
  float mirostat_tau, mirostat_eta; /* tau above 0: Mirostat 2 instead of top-k, typical-p, top-p and min-p */
  /* DRY: a token that would make a repeat of n tokens longer loses dry * dry_base^(n - dry_length) where n is at least
   * dry_length. dry_base 0: 1.75; dry_length 0: 2; dry_last 0: the whole conversation, else its last tokens. Repeats do
   * not reach across dry_break; NULL: the tokens that "\n", ":", "\"" and "*" end with. */
  float dry, dry_base;
  uint32_t dry_length, dry_last, n_dry_break;
  const int32_t *dry_break; /* [n_dry_break] */
  /* Tokens that are guessed from what was there before and tried in one step; ids are those without, sampled ones too.
   * Models whose caches are not kept are without. */
  uint32_t lookup, reserved;
} tn_gen_params;
enum { TN_GEN_IGNORE_EOS = 1, TN_GEN_NO_SPECIAL = 2 };

/* One generated token. text: whole UTF-8 characters that became sure with it (may be empty). Nonzero stops. */
typedef int (*tn_token_fn)(void *user, int32_t id, const char *text, size_t n);

enum { TN_STOP_LENGTH = 1, TN_STOP_EOS = 2, TN_STOP_STRING = 3, TN_STOP_CALLBACK = 4, TN_STOP_CONTEXT = 5 };
typedef struct tn_gen_result {
  tn_hdr h;
  uint32_t prompt_tokens, new_tokens, reason, reserved;
  int64_t prefill_ns, decode_ns;
} tn_gen_result;

/* path: a folder with model, tokenizer.json, config.json, generation_config.json. */
TN_API TN_MUST_CHECK tn_status tn_lm_load(tn_runtime *rt, const char *path, const tn_lm_opts *o, tn_lm **out,
                                          tn_error *err);
TN_API void tn_lm_destroy(tn_lm *lm);
TN_API tn_model *tn_lm_model(tn_lm *lm); /* the lm's, for reports */
/* Positions that a conversation can have. */
TN_API int64_t tn_lm_context(const tn_lm *lm);
/* Positions that the model at path was made for, as its config.json or genai_config.json says; 0: they do not say.
 * Reads these files only. */
TN_API TN_MUST_CHECK tn_status tn_lm_longest(const char *path, int64_t *positions, tn_error *err);
/* Defaults: sampling as generation_config.json says, else greedy off (temperature 1). */
TN_API void tn_gen_params_init(tn_gen_params *p);
TN_API void tn_lm_gen_defaults(const tn_lm *lm, tn_gen_params *p);

/* A conversation: KV cache and token history. One call at a time. */
typedef struct tn_chat tn_chat;
TN_API TN_MUST_CHECK tn_status tn_chat_create(tn_lm *lm, tn_chat **out, tn_error *err);
TN_API void tn_chat_destroy(tn_chat *c);
TN_API void tn_chat_cancel(tn_chat *c); /* any thread */
TN_API void tn_chat_trace(tn_chat *c, void (*fn)(void *user, const tn_trace_event *e), void *user);
/* Appends prompt (text of n bytes; special tokens of the tokenizer's template are added at the start of an empty
 * conversation) and generates. A prompt that does not fit the context is TN_E_LIMIT with both lengths. */
TN_API TN_MUST_CHECK tn_status tn_generate(tn_chat *c, const char *prompt, size_t n, const tn_gen_params *p,
                                           tn_token_fn fn, void *user, tn_gen_result *res, tn_error *err);
/* The same from ids. */
TN_API TN_MUST_CHECK tn_status tn_generate_ids(tn_chat *c, const int32_t *ids, size_t n, const tn_gen_params *p,
                                               tn_token_fn fn, void *user, tn_gen_result *res, tn_error *err);
/* Appends ids and gives the logits of every appended position: row i at (*logits)[i * vocab], memory of c until the
 * next call. */
TN_API TN_MUST_CHECK tn_status tn_chat_score(tn_chat *c, const int32_t *ids, size_t n, const float **logits,
                                             size_t *rows, size_t *vocab, tn_error *err);
/* Forgets everything. */
TN_API void tn_chat_reset(tn_chat *c);

/* Ids of text / text of ids, tn_free both. add_special: the tokenizer's template. */
TN_API TN_MUST_CHECK tn_status tn_lm_encode(const tn_lm *lm, const char *text, size_t n, int add_special, int32_t **ids,
                                            size_t *n_ids, tn_error *err);
TN_API TN_MUST_CHECK tn_status tn_lm_decode(const tn_lm *lm, const int32_t *ids, size_t n, int skip_special,
                                            char **text, size_t *n_text, tn_error *err);
/* Begin- and end-of-sequence ids; -1 where there is none. */
TN_API int32_t tn_lm_bos(const tn_lm *lm);
TN_API int tn_lm_is_eos(const tn_lm *lm, int32_t id);

#ifdef __cplusplus
}
#endif
#endif
