# SPDX-License-Identifier: MIT
"""Why a kind of row is not among a method's: code -> (text, {kinds: methods})."""

MADE = "tn_zeros tn_ones tn_empty tn_arange tn_linspace tn_eye tn_random_bits tn_rand tn_randn tn_randint tn_uniform tn_normal tn_scaled_uniform tn_glorot_uniform tn_kaiming_uniform tn_kaiming_normal tn_randperm"
LIKE = "tn_zeros_like tn_ones_like tn_empty_like"
UNARY = """tn_neg tn_abs tn_sign tn_square tn_logical_not tn_bitwise_not tn_trunc tn_floor tn_ceil tn_round tn_isnan tn_isinf tn_isfinite tn_reciprocal
tn_sqrt tn_rsqrt tn_exp tn_exp2 tn_log tn_log2 tn_log10 tn_sin tn_cos tn_tan tn_asin tn_acos tn_atan tn_sinh tn_cosh tn_tanh tn_asinh tn_acosh
tn_atanh tn_erf tn_relu tn_relu6 tn_sigmoid tn_hardswish tn_hardsigmoid tn_hardtanh tn_leaky_relu tn_quick_gelu tn_gelu tn_swish tn_silu tn_elu
tn_celu tn_selu tn_softplus tn_mish tn_logsigmoid tn_softsign tn_cast tn_bitcast tn_float tn_double tn_half tn_bfloat16 tn_short tn_int tn_long
tn_bool tn_contiguous tn_contiguous_backward tn_clone tn_nbytes tn_element_size tn_is_floating_point tn_tril tn_triu tn_one_hot tn_rand_like
tn_randn_like tn_multinomial tn_dropout"""
REDUCING = """tn_sum tn_prod tn_max tn_min tn_any tn_all tn_mean tn_var tn_std tn_var_mean tn_std_mean tn_logsumexp tn_argmax tn_argmin tn_softmax
tn_log_softmax tn_softmin tn_normalize tn_layernorm tn_cumsum tn_cumprod tn_cummax tn_cummin tn_logcumsumexp tn_sort tn_argsort tn_topk
tn_nonzero"""
MOVING = """tn_reshape tn_view tn_expand tn_permute tn_transpose tn_T tn_shrink tn_shrink_to tn_flip tn_squeeze tn_unsqueeze tn_flatten tn_unflatten
tn_diagonal tn_unfold tn_split tn_chunk tn_pad tn_pad_to tn_repeat tn_repeat_interleave tn_roll tn_diag tn_max_pool2d tn_avg_pool2d
tn_max_unpool2d tn_interpolate"""
WRITES = "tn_iadd tn_isub tn_imul tn_idiv tn_ifloordiv tn_imod tn_ipow tn_iand tn_ior tn_ixor tn_ilshift tn_irshift tn_imatmul tn_setitem"
CLASSES = "tn_sparse_categorical_crossentropy tn_cross_entropy tn_nll_loss"
CODES = {
    "none": ("no operands; what goes in are numbers of C", {"left right zeros nan inf limits": MADE}),
    "one": ("one operand, and nothing beside it that could be of another shape", {"left right": LIKE + " " + UNARY + " " + REDUCING + " " + MOVING}),
    "fills": ("a scalar fills a shape", {"left": "tn_full tn_full_like tn_const_like", "right": "tn_full"}),
    "written": ("the operand that is written keeps its shape", {"left": WRITES}),
    "equal": ("the operands' shapes must agree but along the axis", {"left right": "tn_cat tn_stack tn_gather tn_scatter tn_scatter_reduce"}),
    "lists": ("vectors, each with an axis of its own", {"left right": "tn_meshgrid"}),
    "labels": ("an axis of one label has one size", {"left right": "tn_einsum"}),
    "weights": ("weights of one shape; a bias is one number a channel", {"left right": "tn_linear tn_conv2d tn_conv_transpose2d tn_batchnorm"}),
    "classes": ("one class a row", {"left right": CLASSES}),
    "index": ("the result has the shape of the indices", {"left": "tn_index", "right": "tn_index"}),
    "vector": ("the result has an axis", {"rank0": "tn_arange tn_linspace tn_eye tn_randperm tn_multinomial"}),
    "axis": ("takes at least one axis", {"rank0": "tn_imatmul tn_matmul tn_dot tn_linear tn_unflatten tn_diagonal tn_unfold tn_split tn_chunk tn_cat tn_repeat_interleave tn_diag tn_nonzero tn_interpolate tn_sparse_categorical_crossentropy tn_cross_entropy tn_nll_loss"}),
    "axes": ("takes two axes or more", {"rank0": "tn_tril tn_triu tn_scaled_dot_product_attention tn_batchnorm tn_conv2d tn_conv_transpose2d tn_max_pool2d tn_avg_pool2d tn_max_unpool2d"}),
    "words": ("uint32 words, of no other dtype", {"dtypes": "tn_random_bits"}),
    "counter": ("uint64 counters and keys; others are cast", {"dtypes": "tn_threefry"}),
    "chance": ("weights are chances: finite, not all 0", {"nan inf limits zeros": "tn_multinomial"}),
    "chances": ("operands are chances: 0 to 1", {"inf limits": "tn_binary_crossentropy"}),
}
