/* SPDX-License-Identifier: MIT */
/* Call-site macros of nn.h: fields of a model, calls of layers, options of layers, optimizers and files, loops. */
#ifndef TENON_NN_MACROS_H
#define TENON_NN_MACROS_H

/* The walker of a field's type. */
#define TN_WALKER(x)                                  \
    _Generic((x), tn_tensor *                         \
             : tn_tensor_visit, tn_nn_linear          \
             : tn_nn_linear_visit, tn_nn_conv         \
             : tn_nn_conv_visit, tn_nn_batchnorm      \
             : tn_nn_batchnorm_visit, tn_nn_layernorm \
             : tn_nn_layernorm_visit, tn_nn_groupnorm \
             : tn_nn_groupnorm_visit, tn_nn_embedding \
             : tn_nn_embedding_visit, tn_nn_lstm_cell \
             : tn_nn_lstm_cell_visit)
/* One line a field; its name is the name in the source. */
#define tn_field(v, obj, f) tn_visit_sub((v), #f, &(obj)->f, TN_WALKER((obj)->f))
/* A field that is an array of tensors or layers. */
#define tn_field_array(v, obj, f)                                                          \
    tn_visit_array((v), #f, (obj)->f, sizeof(obj)->f / sizeof *(obj)->f, sizeof *(obj)->f, \
                   TN_WALKER(*(obj)->f))
/* A tensor that is not trained. */
#define tn_field_buffer(v, obj, f) tn_visit_buffer((v), #f, &(obj)->f)

/* Applies a layer: tn_call(&m->l1, x) */
#define tn_call(layer, x) \
    (TN_HERE, _Generic((layer),                                                                    \
        tn_nn_linear *: tn_nn_linear_call,                                                         \
        const tn_nn_linear *: tn_nn_linear_call,                                                   \
        tn_nn_conv *: tn_nn_conv_call,                                                             \
        const tn_nn_conv *: tn_nn_conv_call,                                                       \
        tn_nn_batchnorm *: tn_nn_batchnorm_call,                                                   \
        const tn_nn_batchnorm *: tn_nn_batchnorm_call,                                             \
        tn_nn_layernorm *: tn_nn_layernorm_call,                                                   \
        const tn_nn_layernorm *: tn_nn_layernorm_call,                                             \
        tn_nn_groupnorm *: tn_nn_groupnorm_call,                                                   \
        const tn_nn_groupnorm *: tn_nn_groupnorm_call,                                             \
        tn_nn_embedding *: tn_nn_embedding_call,                                                   \
        const tn_nn_embedding *: tn_nn_embedding_call)((layer), (x)))

#define TN_L(p) \
    ((tn_layer){.kind = _Generic((p),                                                              \
                    tn_nn_linear *: TN_LAYER_LINEAR,                                               \
                    const tn_nn_linear *: TN_LAYER_LINEAR,                                         \
                    tn_nn_conv *: TN_LAYER_CONV,                                                   \
                    const tn_nn_conv *: TN_LAYER_CONV,                                             \
                    tn_nn_batchnorm *: TN_LAYER_BATCHNORM,                                         \
                    const tn_nn_batchnorm *: TN_LAYER_BATCHNORM,                                   \
                    tn_nn_layernorm *: TN_LAYER_LAYERNORM,                                         \
                    const tn_nn_layernorm *: TN_LAYER_LAYERNORM,                                   \
                    tn_nn_groupnorm *: TN_LAYER_GROUPNORM,                                         \
                    const tn_nn_groupnorm *: TN_LAYER_GROUPNORM,                                   \
                    tn_nn_embedding *: TN_LAYER_EMBEDDING,                                         \
                    const tn_nn_embedding *: TN_LAYER_EMBEDDING),                                  \
                .layer = (p)})
#define TN_F(function) ((tn_layer){.kind = TN_LAYER_FN, .of = {.fn = (function)}})
#define TN_U(function, p) \
    ((tn_layer){.kind = TN_LAYER_USER, .layer = (p), .of = {.user = (function)}})
#define tn_sequential(x, ...)                                       \
    (TN_HERE, (tn_sequential)((x), (const tn_layer[]){__VA_ARGS__}, \
                              sizeof((const tn_layer[]){__VA_ARGS__}) / sizeof(tn_layer)))

#define tn_nn_linear_init(...) TN_OPT3(tn_nn_linear_init, tn_nn_opts, __VA_ARGS__)
#define tn_nn_conv1d_init(...) TN_OPT4(tn_nn_conv1d_init, tn_nn_opts, __VA_ARGS__)
#define tn_nn_conv2d_init(...) TN_OPT4(tn_nn_conv2d_init, tn_nn_opts, __VA_ARGS__)
#define tn_nn_conv_transpose1d_init(...) \
    TN_OPT4(tn_nn_conv_transpose1d_init, tn_nn_opts, __VA_ARGS__)
#define tn_nn_conv_transpose2d_init(...) \
    TN_OPT4(tn_nn_conv_transpose2d_init, tn_nn_opts, __VA_ARGS__)
#define tn_nn_batchnorm_init(...)    TN_OPT2(tn_nn_batchnorm_init, tn_nn_norm_opts, __VA_ARGS__)
#define tn_nn_layernorm_init(...)    TN_OPT2(tn_nn_layernorm_init, tn_nn_norm_opts, __VA_ARGS__)
#define tn_nn_layernorm2d_init(...)  TN_OPT2(tn_nn_layernorm2d_init, tn_nn_norm_opts, __VA_ARGS__)
#define tn_nn_rmsnorm_init(...)      TN_OPT2(tn_nn_rmsnorm_init, tn_nn_norm_opts, __VA_ARGS__)
#define tn_nn_groupnorm_init(...)    TN_OPT3(tn_nn_groupnorm_init, tn_nn_norm_opts, __VA_ARGS__)
#define tn_nn_instancenorm_init(...) TN_OPT2(tn_nn_instancenorm_init, tn_nn_norm_opts, __VA_ARGS__)
#define tn_nn_embedding_init(...)    TN_OPT3(tn_nn_embedding_init, tn_nn_opts, __VA_ARGS__)
#define tn_nn_lstm_cell_init(...)    TN_OPT3(tn_nn_lstm_cell_init, tn_nn_opts, __VA_ARGS__)
#define tn_sgd_new(...)              TN_OPT2(tn_sgd_new, tn_optim_opts, __VA_ARGS__)
#define tn_sgd_list(...)             TN_OPT1(tn_sgd_list, tn_optim_opts, __VA_ARGS__)
#define tn_adam_new(...)             TN_OPT2(tn_adam_new, tn_optim_opts, __VA_ARGS__)
#define tn_adam_list(...)            TN_OPT1(tn_adam_list, tn_optim_opts, __VA_ARGS__)
#define tn_adamw_new(...)            TN_OPT2(tn_adamw_new, tn_optim_opts, __VA_ARGS__)
#define tn_adamw_list(...)           TN_OPT1(tn_adamw_list, tn_optim_opts, __VA_ARGS__)
#define tn_lars_new(...)             TN_OPT2(tn_lars_new, tn_optim_opts, __VA_ARGS__)
#define tn_lars_list(...)            TN_OPT1(tn_lars_list, tn_optim_opts, __VA_ARGS__)
#define tn_lamb_new(...)             TN_OPT2(tn_lamb_new, tn_optim_opts, __VA_ARGS__)
#define tn_lamb_list(...)            TN_OPT1(tn_lamb_list, tn_optim_opts, __VA_ARGS__)
#define tn_muon_new(...)             TN_OPT2(tn_muon_new, tn_optim_opts, __VA_ARGS__)
#define tn_muon_list(...)            TN_OPT1(tn_muon_list, tn_optim_opts, __VA_ARGS__)
#define tn_sched_multistep(...)      TN_OPT3(tn_sched_multistep, tn_sched_opts, __VA_ARGS__)
#define tn_sched_plateau(...)        TN_OPT1(tn_sched_plateau, tn_sched_opts, __VA_ARGS__)
#define tn_sched_cosine(...)         TN_OPT2(tn_sched_cosine, tn_sched_opts, __VA_ARGS__)
#define tn_sched_onecycle(...)       TN_OPT3(tn_sched_onecycle, tn_sched_opts, __VA_ARGS__)
#define tn_optim_step(o)             TN_CALL1(tn_optim_step, o)
#define tn_optim_schedule_step(o)    TN_CALL1(tn_optim_schedule_step, o)
#define tn_mnist_load(...)           TN_OPT2(tn_mnist_load, tn_mnist_opts, __VA_ARGS__)
#define tn_cifar_load(...)           TN_OPT2(tn_cifar_load, tn_cifar_opts, __VA_ARGS__)
#define tn_load_state_dict(...)      TN_OPT3(tn_load_state_dict, tn_load_opts, __VA_ARGS__)
#define tn_safe_save_dict(...)       TN_OPT2(tn_safe_save_dict, tn_save_opts, __VA_ARGS__)
#define tn_safe_save(...)            TN_OPT3(tn_safe_save, tn_save_opts, __VA_ARGS__)
#define tn_safe_load(...)            TN_OPT3(tn_safe_load, tn_load_opts, __VA_ARGS__)
#define TN_BAR(b, count) \
    for (tn_bar b TN_CLEANUP(tn_bar_end) = tn_bar_begin(count); tn_bar_next(&b);)
/* A declaration at the start of a block: says how long the block took. */
#define TN_TIMING(label) \
    tn_timing TN_CAT(tn_timing_, __LINE__) TN_CLEANUP(tn_timing_end) = tn_timing_begin(label)
#endif
