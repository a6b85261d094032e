/* SPDX-License-Identifier: Apache-2.0
 *
 * Typed attributes of the op table's rows, in the order in which they cross the ABI. Included by op.c only. Names,
 * types and defaults are those of the newest ONNX version of each operator; `coerce_2d` is ours (ops.h).
 */
#ifndef TENON_GRAPH_OP_ATTRS_H
#define TENON_GRAPH_OP_ATTRS_H

#include "runtime/graph/op.h"

#define ATTRS(set, ...)                                         \
  static const tni_attr_spec tni_attrs_##set[] = {__VA_ARGS__}; \
  enum { tni_n_attrs_##set = sizeof tni_attrs_##set / sizeof *tni_attrs_##set }
#define INT(name, value) \
  { name, TN_ATTR_INT, false, {.i = (value)}, false, NULL, 0, 0 }
#define INT_IN(name, value, ...) \
  { name, TN_ATTR_INT, false, {.i = (value)}, false, NULL, __VA_ARGS__ }
#define INT_REQUIRED(name) \
  { name, TN_ATTR_INT, true, {.i = 0}, false, NULL, 0, 0 }
#define INT_REQUIRED_IN(name, ...) \
  { name, TN_ATTR_INT, true, {.i = 0}, false, NULL, __VA_ARGS__ }
#define INT_OR_ABSENT(name) \
  { name, TN_ATTR_INT, false, {.i = 0}, true, NULL, 0, 0 }
#define INT_OR_ABSENT_IN(name, ...) \
  { name, TN_ATTR_INT, false, {.i = 0}, true, NULL, __VA_ARGS__ }
/* ONNX states float defaults; (double)0.01f is not 0.01. */
#define FLOAT(name, value) \
  { name, TN_ATTR_FLOAT, false, {.f = (double)(value)}, false, NULL, 0, 0 }
#define FLOAT_OR_ABSENT(name) \
  { name, TN_ATTR_FLOAT, false, {.f = 0}, true, NULL, 0, 0 }
/* What ONNX's text of the newest version lists, and what older versions had besides where no upgrade rewrites it. */
#define WORD(name, value, words) \
  { name, TN_ATTR_STRING, false, {.s = value}, false, words, 0, 0 }
#define WORD_REQUIRED(name, words) \
  { name, TN_ATTR_STRING, true, {.s = NULL}, false, words, 0, 0 }
#define STRING_REQUIRED(name) \
  { name, TN_ATTR_STRING, true, {.s = NULL}, false, NULL, 0, 0 }
/* Lists, tensors, graphs: absent unless the model writes them. */
#define OTHER(name, kind) \
  { name, TN_ATTR_##kind, false, {.i = 0}, true, NULL, 0, 0 }
#define WORDS(name, words) \
  { name, TN_ATTR_STRINGS, false, {.i = 0}, true, words, 0, 0 }
#define INTS_IN(name, ...) \
  { name, TN_ATTR_INTS, false, {.i = 0}, true, NULL, __VA_ARGS__ }
#define INTS_REQUIRED(name) \
  { name, TN_ATTR_INTS, true, {.i = 0}, false, NULL, 0, 0 }
#define INTS_REQUIRED_IN(name, ...) \
  { name, TN_ATTR_INTS, true, {.i = 0}, false, NULL, __VA_ARGS__ }
#define REFUSED(name) \
  { name, TN_ATTR_NONE, false, {.i = 0}, true, NULL, 0, 0 }
#define GRAPH_REQUIRED(name) \
  { name, TN_ATTR_GRAPH, true, {.i = 0}, false, NULL, 0, 0 }

/* Ranges: data types by number (0: as an operand says), counts that are never 0, counts for which 0 means none. */
#define A_DTYPE 1, TN_DT_COUNT - 1
#define A_DTYPE_OR_0 0, TN_DT_COUNT - 1
#define COUNT 1, INT64_MAX
#define COUNT_OR_0 0, INT64_MAX
#define AUTO_PAD WORD("auto_pad", "NOTSET", "NOTSET|SAME_UPPER|SAME_LOWER|VALID")
#define DIRECTION WORD("direction", "forward", "forward|reverse|bidirectional")
#define ACTIVATIONS    \
  WORDS("activations", \
        "Relu|Tanh|Sigmoid|Affine|LeakyRelu|ThresholdedRelu|ScaledTanh|HardSigmoid|Elu|Softsign|Softplus")

static const tni_attr_spec tni_attrs_none[1];
enum { tni_n_attrs_none = 0 };

ATTRS(gelu, WORD("approximate", "none", "none|tanh"));
ATTRS(swish, FLOAT("alpha", 1.0f));
ATTRS(leaky_relu, FLOAT("alpha", 0.01f));
ATTRS(elu, FLOAT("alpha", 1.0f));
ATTRS(selu, FLOAT("alpha", 1.67326319217681884765625f), FLOAT("gamma", 1.05070102214813232421875f));
ATTRS(shrink, FLOAT("bias", 0.0f), FLOAT("lambd", 0.5f));
ATTRS(bit_shift, WORD_REQUIRED("direction", "LEFT|RIGHT"));
ATTRS(hard_sigmoid, FLOAT("alpha", 0.2f), FLOAT("beta", 0.5f));
ATTRS(isinf, INT("detect_negative", 1), INT("detect_positive", 1));
ATTRS(cast, INT_REQUIRED_IN("to", A_DTYPE), INT("saturate", 1), WORD("round_mode", "up", "up|down|nearest"));
ATTRS(cast_like, INT("saturate", 1), WORD("round_mode", "up", "up|down|nearest"));
ATTRS(bit_cast, INT_REQUIRED_IN("to", A_DTYPE));
ATTRS(dropout, FLOAT("ratio", 0.5f), INT_OR_ABSENT("seed"));
ATTRS(mod, INT("fmod", 0));
ATTRS(shape, INT("start", 0), INT_OR_ABSENT("end"));
ATTRS(constant, OTHER("value", TENSOR), INT_OR_ABSENT("value_int"), OTHER("value_ints", INTS),
      FLOAT_OR_ABSENT("value_float"), OTHER("value_floats", FLOATS), OTHER("value_string", STRING),
      OTHER("value_strings", STRINGS), REFUSED("sparse_value"));
ATTRS(constant_of_shape, OTHER("value", TENSOR));
ATTRS(range, INT_IN("stash_type", 1, A_DTYPE));
ATTRS(reshape, INT("allowzero", 0));
ATTRS(flatten, INT("axis", 1));
ATTRS(transpose, OTHER("perm", INTS));
ATTRS(concat, INT_REQUIRED("axis"));
ATTRS(split, INT("axis", 0), INT_OR_ABSENT_IN("num_outputs", COUNT));
ATTRS(axis0, INT("axis", 0));
ATTRS(gather_nd, INT("batch_dims", 0));
ATTRS(scatter_nd, WORD("reduction", "none", "none|add|mul|max|min"));
ATTRS(scatter_elements, INT("axis", 0), WORD("reduction", "none", "none|add|mul|max|min"));
ATTRS(trilu, INT("upper", 1));
ATTRS(pad, WORD("mode", "constant", "constant|reflect|edge|wrap"));
ATTRS(one_hot, INT("axis", -1));
ATTRS(eye_like, INT_OR_ABSENT_IN("dtype", A_DTYPE), INT("k", 0));
ATTRS(reduce, INT("keepdims", 1), INT("noop_with_empty_axes", 0));
ATTRS(arg_max, INT("axis", 0), INT("keepdims", 1), INT("select_last_index", 0));
ATTRS(cum_sum, INT("exclusive", 0), INT("reverse", 0));
ATTRS(softmax, INT("axis", -1), INT("coerce_2d", 0));
ATTRS(softmax_1, INT("axis", 1), INT("coerce_2d", 1));
ATTRS(concat_heads, INT_REQUIRED_IN("num_heads", COUNT), INT_IN("shared", 0, 0, 65535));
ATTRS(head_norm, FLOAT("epsilon", 1e-5f), INT_REQUIRED_IN("num_heads", COUNT), INT_IN("stash_type", 1, A_DTYPE));
ATTRS(layer_norm, INT("axis", -1), FLOAT("epsilon", 1e-5f), INT_IN("stash_type", 1, A_DTYPE));
ATTRS(batch_norm, FLOAT("epsilon", 1e-5f), FLOAT("momentum", 0.9f), INT("training_mode", 0));
ATTRS(epsilon, FLOAT("epsilon", 1e-5f));
ATTRS(group_norm, FLOAT("epsilon", 1e-5f), INT_REQUIRED_IN("num_groups", COUNT), INT_IN("stash_type", 1, A_DTYPE));
ATTRS(lrn, FLOAT("alpha", 1e-4f), FLOAT("beta", 0.75f), FLOAT("bias", 1.0f), INT_REQUIRED_IN("size", COUNT));
ATTRS(lp_norm, INT("axis", -1), INT("p", 2));
ATTRS(mean_variance_norm, OTHER("axes", INTS));
ATTRS(top_k, INT("axis", -1), INT("largest", 1), INT("sorted", 1));
ATTRS(gemm, FLOAT("alpha", 1.0f), FLOAT("beta", 1.0f), INT("transA", 0), INT("transB", 0));
ATTRS(conv, AUTO_PAD, INTS_IN("dilations", COUNT), INT_IN("group", 1, COUNT), INTS_IN("kernel_shape", COUNT),
      OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(average_pool, AUTO_PAD, INT("ceil_mode", 0), INT("count_include_pad", 0), INTS_IN("dilations", COUNT),
      INTS_REQUIRED_IN("kernel_shape", COUNT), OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(max_pool, AUTO_PAD, INT("ceil_mode", 0), INTS_IN("dilations", COUNT), INTS_REQUIRED_IN("kernel_shape", COUNT),
      OTHER("pads", INTS), INT_IN("storage_order", 0, 0, 1), INTS_IN("strides", COUNT));
ATTRS(lp_pool, AUTO_PAD, INT("ceil_mode", 0), INTS_IN("dilations", COUNT), INTS_REQUIRED_IN("kernel_shape", COUNT),
      INT("p", 2), OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(global_lp_pool, INT("p", 2));
ATTRS(conv_transpose, AUTO_PAD, INTS_IN("dilations", COUNT), INT_IN("group", 1, COUNT), INTS_IN("kernel_shape", COUNT),
      OTHER("output_padding", INTS), OTHER("output_shape", INTS), OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(deform_conv, INTS_IN("dilations", COUNT), INT_IN("group", 1, COUNT), INTS_IN("kernel_shape", COUNT),
      INT_IN("offset_group", 1, COUNT), OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(max_roi_pool, INTS_REQUIRED_IN("pooled_shape", COUNT), FLOAT("spatial_scale", 1.0f));
ATTRS(roi_align, WORD("coordinate_transformation_mode", "half_pixel", "half_pixel|output_half_pixel"),
      WORD("mode", "avg", "avg|max"), INT_IN("output_height", 1, COUNT), INT_IN("output_width", 1, COUNT),
      INT_IN("sampling_ratio", 0, COUNT_OR_0), FLOAT("spatial_scale", 1.0f));
ATTRS(resize, INT("antialias", 0), OTHER("axes", INTS),
      WORD("coordinate_transformation_mode", "half_pixel",
           "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_crop_and_resize|tf_half_"
           "pixel_for_nn"),
      FLOAT("cubic_coeff_a", -0.75f), INT("exclude_outside", 0), FLOAT("extrapolation_value", 0.0f),
      WORD("keep_aspect_ratio_policy", "stretch", "stretch|not_larger|not_smaller"),
      WORD("mode", "nearest", "nearest|linear|cubic"),
      WORD("nearest_mode", "round_prefer_floor", "round_prefer_floor|round_prefer_ceil|floor|ceil"));
ATTRS(grid_sample, INT("align_corners", 0), WORD("mode", "linear", "nearest|linear|cubic"),
      WORD("padding_mode", "zeros", "zeros|border|reflection"));
ATTRS(affine_grid, INT("align_corners", 0));
ATTRS(depth_to_space, INT_REQUIRED_IN("blocksize", COUNT), WORD("mode", "DCR", "DCR|CRD"));
ATTRS(col2im, INTS_IN("dilations", COUNT), OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(center_crop_pad, OTHER("axes", INTS));
ATTRS(non_max_suppression, INT("center_point_box", 0));
ATTRS(max_unpool, INTS_REQUIRED_IN("kernel_shape", COUNT), OTHER("pads", INTS), INTS_IN("strides", COUNT));
ATTRS(attention, INT("is_causal", 0), INT_OR_ABSENT("q_num_heads"), INT_OR_ABSENT("kv_num_heads"),
      FLOAT_OR_ABSENT("scale"), FLOAT("softcap", 0.0f), INT("left_window_size", -1), INT("right_window_size", -1),
      INT_OR_ABSENT_IN("softmax_precision", A_DTYPE), INT_IN("qk_matmul_output_mode", 0, 0, 3));
ATTRS(rotary_embedding, INT("interleaved", 0), INT_OR_ABSENT("num_heads"),
      INT_IN("rotary_embedding_dim", 0, COUNT_OR_0));
ATTRS(elementwise, OTHER("ops", INTS), OTHER("floats", FLOATS), OTHER("results", INTS));
ATTRS(fused_matmul, OTHER("ops", INTS), OTHER("floats", FLOATS), OTHER("results", INTS), INT("n_weights", 1),
      INT("trans_b", 0), OTHER("parts", INTS));
ATTRS(tensor_scatter, INT("axis", -2), WORD("mode", "linear", "linear|circular"));
ATTRS(einsum, STRING_REQUIRED("equation"));
ATTRS(dft, INT("inverse", 0), INT("onesided", 0));
ATTRS(stft, INT("onesided", 1));
ATTRS(window, INT_IN("output_datatype", 1, A_DTYPE), INT("periodic", 1));
ATTRS(mel_weight_matrix, INT_IN("output_datatype", 1, A_DTYPE));
ATTRS(optional_axis, INT_OR_ABSENT("axis"));
ATTRS(unique, INT_OR_ABSENT("axis"), INT("sorted", 1));
ATTRS(reverse_sequence, INT_IN("batch_axis", 1, 0, 1), INT_IN("time_axis", 0, 0, 1));
ATTRS(random_normal, INT_IN("dtype", 1, A_DTYPE), FLOAT("mean", 0.0f), FLOAT("scale", 1.0f), FLOAT_OR_ABSENT("seed"),
      INTS_REQUIRED_IN("shape", COUNT_OR_0));
ATTRS(random_normal_like, INT_OR_ABSENT_IN("dtype", A_DTYPE), FLOAT("mean", 0.0f), FLOAT("scale", 1.0f),
      FLOAT_OR_ABSENT("seed"));
ATTRS(random_uniform, INT_IN("dtype", 1, A_DTYPE), FLOAT("high", 1.0f), FLOAT("low", 0.0f), FLOAT_OR_ABSENT("seed"),
      INTS_REQUIRED_IN("shape", COUNT_OR_0));
ATTRS(random_uniform_like, INT_OR_ABSENT_IN("dtype", A_DTYPE), FLOAT("high", 1.0f), FLOAT("low", 0.0f),
      FLOAT_OR_ABSENT("seed"));
ATTRS(multinomial, INT_IN("dtype", 6, A_DTYPE), INT_IN("sample_size", 1, COUNT), FLOAT_OR_ABSENT("seed"));
ATTRS(bernoulli, INT_OR_ABSENT_IN("dtype", A_DTYPE), FLOAT_OR_ABSENT("seed"));
ATTRS(loss, INT_OR_ABSENT("ignore_index"), WORD("reduction", "mean", "none|sum|mean"));
ATTRS(if_, GRAPH_REQUIRED("then_branch"), GRAPH_REQUIRED("else_branch"));
ATTRS(loop, GRAPH_REQUIRED("body"));
ATTRS(scan_8, GRAPH_REQUIRED("body"), INTS_IN("directions", 0, 1), INT_REQUIRED_IN("num_scan_inputs", COUNT));
ATTRS(scan, GRAPH_REQUIRED("body"), INT_REQUIRED_IN("num_scan_inputs", COUNT), OTHER("scan_input_axes", INTS),
      INTS_IN("scan_input_directions", 0, 1), OTHER("scan_output_axes", INTS), INTS_IN("scan_output_directions", 0, 1));
ATTRS(quantize_linear, INT("axis", 1), INT_IN("block_size", 0, COUNT_OR_0), INT_IN("output_dtype", 0, A_DTYPE_OR_0),
      INT_IN("precision", 0, A_DTYPE_OR_0), INT("saturate", 1));
ATTRS(dequantize_linear, INT("axis", 1), INT_IN("block_size", 0, COUNT_OR_0), INT_IN("output_dtype", 0, A_DTYPE_OR_0));
ATTRS(rnn, OTHER("activation_alpha", FLOATS), OTHER("activation_beta", FLOATS), ACTIVATIONS, FLOAT_OR_ABSENT("clip"),
      DIRECTION, INT_OR_ABSENT_IN("hidden_size", COUNT), INT_IN("layout", 0, 0, 1));
ATTRS(gru, OTHER("activation_alpha", FLOATS), OTHER("activation_beta", FLOATS), ACTIVATIONS, FLOAT_OR_ABSENT("clip"),
      DIRECTION, INT_OR_ABSENT_IN("hidden_size", COUNT), INT_IN("layout", 0, 0, 1), INT("linear_before_reset", 0));
ATTRS(lstm, OTHER("activation_alpha", FLOATS), OTHER("activation_beta", FLOATS), ACTIVATIONS, FLOAT_OR_ABSENT("clip"),
      DIRECTION, INT_OR_ABSENT_IN("hidden_size", COUNT), INT("input_forget", 0), INT_IN("layout", 0, 0, 1));
ATTRS(linear_attention, INT("chunk_size", 64), INT_REQUIRED_IN("kv_num_heads", COUNT),
      INT_REQUIRED_IN("q_num_heads", COUNT), FLOAT("scale", 0.0f),
      WORD("update_rule", "gated_delta", "linear|gated|delta|gated_delta"));
ATTRS(causal_conv, WORD("activation", "none", "none|silu|swish"));
ATTRS(sequence_empty, INT_OR_ABSENT_IN("dtype", A_DTYPE));
ATTRS(split_to_sequence, INT("axis", 0), INT("keepdims", 1));
ATTRS(concat_from_sequence, INT_REQUIRED("axis"), INT("new_axis", 0));
ATTRS(qlinear_gemm, INT("trans_b", 0));
ATTRS(qlinear_binary, INT_REQUIRED("op"));
ATTRS(optional, OTHER("type", INTS)); /* a type, as tni_type_ints writes it */

#undef ATTRS
#undef INT
#undef INT_REQUIRED
#undef INT_OR_ABSENT
#undef FLOAT
#undef FLOAT_OR_ABSENT
#undef WORD
#undef WORD_REQUIRED
#undef WORDS
#undef INT_IN
#undef INT_REQUIRED_IN
#undef INT_OR_ABSENT_IN
#undef INTS_IN
#undef INTS_REQUIRED_IN
#undef A_DTYPE
#undef A_DTYPE_OR_0
#undef COUNT
#undef COUNT_OR_0
#undef AUTO_PAD
#undef DIRECTION
#undef ACTIVATIONS
#undef STRING_REQUIRED
#undef OTHER
#undef INTS_REQUIRED
#undef REFUSED
#undef GRAPH_REQUIRED

#endif
