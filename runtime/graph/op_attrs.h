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
  { name, TN_ATTR_INT, false, {.i = (value)}, false }
#define INT_REQUIRED(name) \
  { name, TN_ATTR_INT, true, {.i = 0}, false }
#define INT_OR_ABSENT(name) \
  { name, TN_ATTR_INT, false, {.i = 0}, true }
/* ONNX states float defaults; (double)0.01f is not 0.01. */
#define FLOAT(name, value) \
  { name, TN_ATTR_FLOAT, false, {.f = (double)(value)}, false }
#define FLOAT_OR_ABSENT(name) \
  { name, TN_ATTR_FLOAT, false, {.f = 0}, true }
#define STRING(name, value) \
  { name, TN_ATTR_STRING, false, {.s = value}, false }
#define STRING_REQUIRED(name) \
  { name, TN_ATTR_STRING, true, {.s = NULL}, false }
/* Lists, tensors, graphs: absent unless the model writes them. */
#define OTHER(name, kind) \
  { name, TN_ATTR_##kind, false, {.i = 0}, true }
#define INTS_REQUIRED(name) \
  { name, TN_ATTR_INTS, true, {.i = 0}, false }
#define REFUSED(name) \
  { name, TN_ATTR_NONE, false, {.i = 0}, true }
#define GRAPH_REQUIRED(name) \
  { name, TN_ATTR_GRAPH, true, {.i = 0}, false }

static const tni_attr_spec tni_attrs_none[1];
enum { tni_n_attrs_none = 0 };

ATTRS(gelu, STRING("approximate", "none"));
ATTRS(swish, FLOAT("alpha", 1.0f));
ATTRS(leaky_relu, FLOAT("alpha", 0.01f));
ATTRS(elu, FLOAT("alpha", 1.0f));
ATTRS(selu, FLOAT("alpha", 1.67326319217681884765625f), FLOAT("gamma", 1.05070102214813232421875f));
ATTRS(shrink, FLOAT("bias", 0.0f), FLOAT("lambd", 0.5f));
ATTRS(bit_shift, STRING_REQUIRED("direction"));
ATTRS(hard_sigmoid, FLOAT("alpha", 0.2f), FLOAT("beta", 0.5f));
ATTRS(isinf, INT("detect_negative", 1), INT("detect_positive", 1));
ATTRS(cast, INT_REQUIRED("to"), INT("saturate", 1), STRING("round_mode", "up"));
ATTRS(cast_like, INT("saturate", 1), STRING("round_mode", "up"));
ATTRS(bit_cast, INT_REQUIRED("to"));
ATTRS(dropout, FLOAT("ratio", 0.5f), INT_OR_ABSENT("seed"));
ATTRS(mod, INT("fmod", 0));
ATTRS(shape, INT("start", 0), INT_OR_ABSENT("end"));
ATTRS(constant, OTHER("value", TENSOR), INT_OR_ABSENT("value_int"), OTHER("value_ints", INTS),
      FLOAT_OR_ABSENT("value_float"), OTHER("value_floats", FLOATS), OTHER("value_string", STRING),
      OTHER("value_strings", STRINGS), REFUSED("sparse_value"));
ATTRS(constant_of_shape, OTHER("value", TENSOR));
ATTRS(range, INT("stash_type", 1));
ATTRS(reshape, INT("allowzero", 0));
ATTRS(flatten, INT("axis", 1));
ATTRS(transpose, OTHER("perm", INTS));
ATTRS(concat, INT_REQUIRED("axis"));
ATTRS(split, INT("axis", 0), INT_OR_ABSENT("num_outputs"));
ATTRS(axis0, INT("axis", 0));
ATTRS(gather_nd, INT("batch_dims", 0));
ATTRS(scatter_nd, STRING("reduction", "none"));
ATTRS(scatter_elements, INT("axis", 0), STRING("reduction", "none"));
ATTRS(trilu, INT("upper", 1));
ATTRS(pad, STRING("mode", "constant"));
ATTRS(one_hot, INT("axis", -1));
ATTRS(eye_like, INT_OR_ABSENT("dtype"), INT("k", 0));
ATTRS(reduce, INT("keepdims", 1), INT("noop_with_empty_axes", 0));
ATTRS(arg_max, INT("axis", 0), INT("keepdims", 1), INT("select_last_index", 0));
ATTRS(cum_sum, INT("exclusive", 0), INT("reverse", 0));
ATTRS(softmax, INT("axis", -1), INT("coerce_2d", 0));
ATTRS(softmax_1, INT("axis", 1), INT("coerce_2d", 1));
ATTRS(layer_norm, INT("axis", -1), FLOAT("epsilon", 1e-5f), INT("stash_type", 1));
ATTRS(batch_norm, FLOAT("epsilon", 1e-5f), FLOAT("momentum", 0.9f), INT("training_mode", 0));
ATTRS(epsilon, FLOAT("epsilon", 1e-5f));
ATTRS(group_norm, FLOAT("epsilon", 1e-5f), INT_REQUIRED("num_groups"), INT("stash_type", 1));
ATTRS(lrn, FLOAT("alpha", 1e-4f), FLOAT("beta", 0.75f), FLOAT("bias", 1.0f), INT_REQUIRED("size"));
ATTRS(lp_norm, INT("axis", -1), INT("p", 2));
ATTRS(mean_variance_norm, OTHER("axes", INTS));
ATTRS(top_k, INT("axis", -1), INT("largest", 1), INT("sorted", 1));
ATTRS(gemm, FLOAT("alpha", 1.0f), FLOAT("beta", 1.0f), INT("transA", 0), INT("transB", 0));
ATTRS(conv, STRING("auto_pad", "NOTSET"), OTHER("dilations", INTS), INT("group", 1), OTHER("kernel_shape", INTS),
      OTHER("pads", INTS), OTHER("strides", INTS));
ATTRS(average_pool, STRING("auto_pad", "NOTSET"), INT("ceil_mode", 0), INT("count_include_pad", 0),
      OTHER("dilations", INTS), INTS_REQUIRED("kernel_shape"), OTHER("pads", INTS), OTHER("strides", INTS));
ATTRS(max_pool, STRING("auto_pad", "NOTSET"), INT("ceil_mode", 0), OTHER("dilations", INTS),
      INTS_REQUIRED("kernel_shape"), OTHER("pads", INTS), INT("storage_order", 0), OTHER("strides", INTS));
ATTRS(lp_pool, STRING("auto_pad", "NOTSET"), INT("ceil_mode", 0), OTHER("dilations", INTS),
      INTS_REQUIRED("kernel_shape"), INT("p", 2), OTHER("pads", INTS), OTHER("strides", INTS));
ATTRS(global_lp_pool, INT("p", 2));
ATTRS(conv_transpose, STRING("auto_pad", "NOTSET"), OTHER("dilations", INTS), INT("group", 1),
      OTHER("kernel_shape", INTS), OTHER("output_padding", INTS), OTHER("output_shape", INTS), OTHER("pads", INTS),
      OTHER("strides", INTS));
ATTRS(deform_conv, OTHER("dilations", INTS), INT("group", 1), OTHER("kernel_shape", INTS), INT("offset_group", 1),
      OTHER("pads", INTS), OTHER("strides", INTS));
ATTRS(max_roi_pool, INTS_REQUIRED("pooled_shape"), FLOAT("spatial_scale", 1.0f));
ATTRS(roi_align, STRING("coordinate_transformation_mode", "half_pixel"), STRING("mode", "avg"),
      INT("output_height", 1), INT("output_width", 1), INT("sampling_ratio", 0), FLOAT("spatial_scale", 1.0f));
ATTRS(resize, INT("antialias", 0), OTHER("axes", INTS), STRING("coordinate_transformation_mode", "half_pixel"),
      FLOAT("cubic_coeff_a", -0.75f), INT("exclude_outside", 0), FLOAT("extrapolation_value", 0.0f),
      STRING("keep_aspect_ratio_policy", "stretch"), STRING("mode", "nearest"),
      STRING("nearest_mode", "round_prefer_floor"));
ATTRS(grid_sample, INT("align_corners", 0), STRING("mode", "linear"), STRING("padding_mode", "zeros"));
ATTRS(affine_grid, INT("align_corners", 0));
ATTRS(depth_to_space, INT_REQUIRED("blocksize"), STRING("mode", "DCR"));
ATTRS(col2im, OTHER("dilations", INTS), OTHER("pads", INTS), OTHER("strides", INTS));
ATTRS(center_crop_pad, OTHER("axes", INTS));
ATTRS(non_max_suppression, INT("center_point_box", 0));
ATTRS(max_unpool, INTS_REQUIRED("kernel_shape"), OTHER("pads", INTS), OTHER("strides", INTS));
ATTRS(attention, INT("is_causal", 0), INT_OR_ABSENT("q_num_heads"), INT_OR_ABSENT("kv_num_heads"),
      FLOAT_OR_ABSENT("scale"), FLOAT("softcap", 0.0f), INT("left_window_size", -1), INT("right_window_size", -1),
      INT_OR_ABSENT("softmax_precision"), INT("qk_matmul_output_mode", 0));
ATTRS(rotary_embedding, INT("interleaved", 0), INT_OR_ABSENT("num_heads"), INT("rotary_embedding_dim", 0));
ATTRS(elementwise, OTHER("ops", INTS), OTHER("floats", FLOATS), OTHER("results", INTS));
ATTRS(fused_matmul, OTHER("ops", INTS), OTHER("floats", FLOATS), OTHER("results", INTS), INT("n_weights", 1),
      INT("trans_b", 0), OTHER("parts", INTS));
ATTRS(tensor_scatter, INT("axis", -2), STRING("mode", "linear"));
ATTRS(einsum, STRING_REQUIRED("equation"));
ATTRS(dft, INT("inverse", 0), INT("onesided", 0));
ATTRS(stft, INT("onesided", 1));
ATTRS(window, INT("output_datatype", 1), INT("periodic", 1));
ATTRS(mel_weight_matrix, INT("output_datatype", 1));
ATTRS(optional_axis, INT_OR_ABSENT("axis"));
ATTRS(unique, INT_OR_ABSENT("axis"), INT("sorted", 1));
ATTRS(reverse_sequence, INT("batch_axis", 1), INT("time_axis", 0));
ATTRS(random_normal, INT("dtype", 1), FLOAT("mean", 0.0f), FLOAT("scale", 1.0f), FLOAT_OR_ABSENT("seed"),
      INTS_REQUIRED("shape"));
ATTRS(random_normal_like, INT_OR_ABSENT("dtype"), FLOAT("mean", 0.0f), FLOAT("scale", 1.0f), FLOAT_OR_ABSENT("seed"));
ATTRS(random_uniform, INT("dtype", 1), FLOAT("high", 1.0f), FLOAT("low", 0.0f), FLOAT_OR_ABSENT("seed"),
      INTS_REQUIRED("shape"));
ATTRS(random_uniform_like, INT_OR_ABSENT("dtype"), FLOAT("high", 1.0f), FLOAT("low", 0.0f), FLOAT_OR_ABSENT("seed"));
ATTRS(multinomial, INT("dtype", 6), INT("sample_size", 1), FLOAT_OR_ABSENT("seed"));
ATTRS(bernoulli, INT_OR_ABSENT("dtype"), FLOAT_OR_ABSENT("seed"));
ATTRS(loss, INT_OR_ABSENT("ignore_index"), STRING("reduction", "mean"));
ATTRS(if_, GRAPH_REQUIRED("then_branch"), GRAPH_REQUIRED("else_branch"));
ATTRS(loop, GRAPH_REQUIRED("body"));
ATTRS(scan_8, GRAPH_REQUIRED("body"), OTHER("directions", INTS), INT_REQUIRED("num_scan_inputs"));
ATTRS(scan, GRAPH_REQUIRED("body"), INT_REQUIRED("num_scan_inputs"), OTHER("scan_input_axes", INTS),
      OTHER("scan_input_directions", INTS), OTHER("scan_output_axes", INTS), OTHER("scan_output_directions", INTS));
ATTRS(quantize_linear, INT("axis", 1), INT("block_size", 0), INT("output_dtype", 0), INT("precision", 0),
      INT("saturate", 1));
ATTRS(dequantize_linear, INT("axis", 1), INT("block_size", 0), INT("output_dtype", 0));
ATTRS(rnn, OTHER("activation_alpha", FLOATS), OTHER("activation_beta", FLOATS), OTHER("activations", STRINGS),
      FLOAT_OR_ABSENT("clip"), STRING("direction", "forward"), INT_OR_ABSENT("hidden_size"), INT("layout", 0));
ATTRS(gru, OTHER("activation_alpha", FLOATS), OTHER("activation_beta", FLOATS), OTHER("activations", STRINGS),
      FLOAT_OR_ABSENT("clip"), STRING("direction", "forward"), INT_OR_ABSENT("hidden_size"), INT("layout", 0),
      INT("linear_before_reset", 0));
ATTRS(lstm, OTHER("activation_alpha", FLOATS), OTHER("activation_beta", FLOATS), OTHER("activations", STRINGS),
      FLOAT_OR_ABSENT("clip"), STRING("direction", "forward"), INT_OR_ABSENT("hidden_size"), INT("input_forget", 0),
      INT("layout", 0));
ATTRS(linear_attention, INT("chunk_size", 64), INT_REQUIRED("kv_num_heads"), INT_REQUIRED("q_num_heads"),
      FLOAT("scale", 0.0f), STRING("update_rule", "gated_delta"));
ATTRS(causal_conv, STRING("activation", "none"));
ATTRS(sequence_empty, INT_OR_ABSENT("dtype"));
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
#undef STRING
#undef STRING_REQUIRED
#undef OTHER
#undef INTS_REQUIRED
#undef REFUSED
#undef GRAPH_REQUIRED

#endif
