/* Models: modules hold parameters, buffers and other modules, and have a forward function. Losses are functions. */
#ifndef HODU_NN_H
#define HODU_NN_H

#include <hodu/list.h>
#include <hodu/op_options.h>

typedef struct hd_module hd_module;

HD_BEGIN_DECLS
/* ---- using a module ---- */
/* The module's output for x. */
HD_API hd_tensor *hd_forward(hd_module *module, hd_tensor *x);
/* Its outputs for several inputs; HD_FORWARD_ALL(module, a, b) writes it shorter. Each of the two serves any module:
 * one that takes a list is given x alone by hd_forward, which returns the first output, and one that takes a tensor
 * gets the only input of hd_forward_all. */
HD_API hd_tensors *hd_forward_all(hd_module *module, hd_tensors *inputs);
#define HD_FORWARD_ALL(module, ...) hd_forward_all(module, HD_TENSORS(__VA_ARGS__))
/* Training is how modules begin; evaluation turns off what only training wants. Neither is a change for modules that
 * are there already, whoever uses them. */
HD_API void hd_module_train(hd_module *module);
HD_API void hd_module_eval(hd_module *module);
HD_API bool hd_module_is_training(const hd_module *module);
/* Lets none of its parameters have a gradient, or all of them. Gradients that are there stay. */
HD_API void hd_module_freeze(hd_module *module);
HD_API void hd_module_unfreeze(hd_module *module);

/* ---- what is in a module ---- */
/* Its parameters and those of the modules in it, each once, in the order they were added: a tensor that is a parameter
 * of two modules (tied weights) is one, under its first name. */
HD_API hd_tensors *hd_module_parameters(hd_module *module);
/* The name of parameter `index` of that list, "0.weight"; valid as long as the module. */
HD_API const char *hd_module_parameter_name(hd_module *module, int64_t index);
/* The same of buffers. */
HD_API hd_tensors *hd_module_buffers(hd_module *module);
HD_API const char *hd_module_buffer_name(hd_module *module, int64_t index);
/* The parameter or buffer of that name, which is a path: "encoder.0.weight". */
HD_API hd_tensor *hd_module_get(hd_module *module, const char *name);
/* The name of its class, "linear". */
HD_API const char *hd_module_class_name(const hd_module *module);
/* The modules that were added to it, in that order: how many, one of them, which may be counted from the end, and its
 * name, valid as long as the module. */
HD_API int64_t hd_module_child_count(hd_module *module);
HD_API hd_module *hd_module_child_at(hd_module *module, int64_t index);
HD_API const char *hd_module_child_name(hd_module *module, int64_t index);
/* The module of that name in it, which is a path: "encoder.0". */
HD_API hd_module *hd_module_child(hd_module *module, const char *path);
/* Calls visit(m, path, user) for all modules in it, each once, from the inside out, and at last for the module itself,
 * whose path is "". What is added on the way is not visited. */
HD_API void hd_module_apply(hd_module *module, void (*visit)(hd_module *m, const char *path, void *user), void *user);
/* Prints to stdout what is in it: names, classes, numbers of parameters, memory; and for example inputs, unless they
 * are NULL, the shapes of outputs and the operations (sums, products, comparisons) of a forward. It records the
 * forward, which changes nothing and reads no values. */
HD_API void hd_module_print(hd_module *module, hd_tensors *example);
/* The same text into `out` (always terminated); returns the length of the whole text, as snprintf does; -1 on error. */
HD_API int64_t hd_module_format(hd_module *module, hd_tensors *example, char *out, size_t capacity);

/* ---- moving and copying ---- */
/* Moves its parameters, their gradients and its buffers to a device, all or none. They stay the tensors they are, so
 * that optimizers keep them. */
HD_API void hd_module_to(hd_module *module, hd_device device);
/* Likewise to a dtype, a float; buffers of integers stay as they are. What an optimizer keeps has its own dtype: make
 * optimizers afterwards. */
HD_API void hd_module_to_dtype(hd_module *module, hd_dtype dtype);
/* A module like it with parameters and buffers of its own, which have the same values; what is shared within it is
 * shared within the copy. Gradients and hooks are not copied. */
HD_API hd_module *hd_module_copy(hd_module *module);
/* The values of all parameters and buffers of `from` into those of `to`, by their names, which are the same in both, as
 * are the shapes. A builder records it. */
HD_API void hd_module_assign(hd_module *to, hd_module *from);
/* A moving average: each parameter of `to` becomes decay times itself + (1 - decay) times that of `from`; buffers are
 * assigned. Ops alone, without a tape. */
HD_API void hd_module_average(hd_module *to, hd_module *from, double decay);

/* ---- hooks ---- */
/* May return other inputs for the forward that follows, or NULL to leave them. */
typedef hd_tensors *(*hd_before_forward)(hd_module *module, hd_tensors *inputs, void *user);
/* May return other outputs, as many, or NULL to leave them. */
typedef hd_tensors *(*hd_after_forward)(hd_module *module, hd_tensors *inputs, hd_tensors *outputs, void *user);
/* Calls these (either may be NULL) around every hd_forward and hd_forward_all of the module, those first that were
 * added first; returns a number to remove them by. `destroy`, unless it is NULL, is given `user` when they are removed
 * or the module goes. In a builder their calls are recorded. Hooks of a model that is compiled run when it is captured,
 * which is done anew after hooks were added or removed: what they compute is in the script, and what else they do is
 * done then. Those of the module that hd_compile returns run at each call. */
HD_API int64_t hd_module_add_hook(hd_module *module, hd_before_forward before, hd_after_forward after, void *user,
                                  void (*destroy)(void *user));
HD_API void hd_module_remove_hook(hd_module *module, int64_t hook);

/* ---- modules ---- */
typedef struct hd_linear_opts {
    size_t struct_size;
    bool no_bias;
    hd_dtype dtype; /* the default float by default */
} hd_linear_opts;
/* x [..., in] -> [..., out]: x weight^T + bias, with weight [out, in] and bias [out] drawn uniformly within
 * 1 / sqrt(in). */
HD_API hd_module *hd_linear(int64_t in, int64_t out, const hd_linear_opts *opts);
/* One after the other; parameters and buffers that are added to it are not called. HD_SEQUENTIAL(a, b, c) writes it
 * shorter; a is made first, then b, then c, so that a seed gives the same weights in C and C++. */
HD_API hd_module *hd_sequential(hd_module *const *modules, int64_t count);

/* Holds modules by number, and has no forward: the forward of the module that it is a member of calls them.
 * HD_MODULE_LIST(a, b) writes it shorter; hd_module_add adds more, under names of yours. */
HD_API hd_module *hd_module_list(hd_module *const *modules, int64_t count);
/* x + module(x); the module is its member "module". */
HD_API hd_module *hd_residual(hd_module *module);
/* x with the axes `from` to `to` as one, which may count from the end: (1, -1) keeps the first axis. */
HD_API hd_module *hd_flatten_layer(int from, int to);
/* function(x, user). `destroy`, unless it is NULL, is given `user` when the layer goes; without it `user` stays yours,
 * and valid as long as the layer and its copies. */
HD_API hd_module *hd_function_layer(hd_tensor *(*function)(hd_tensor *x, void *user), void *user,
                                    void (*destroy)(void *user));

typedef struct hd_norm_layer_opts {
    size_t struct_size;
    double eps;              /* 1e-5 by default */
    bool no_weight, no_bias; /* a weight of ones, and a bias of zeros, to begin with */
    hd_dtype dtype;          /* the default float by default */
} hd_norm_layer_opts;
/* hd_layer_norm over the last axes, which have this shape. */
HD_API hd_module *hd_layer_norm_layer(hd_shape shape, const hd_norm_layer_opts *opts);
/* hd_rms_norm over the last axis; it has no bias. */
HD_API hd_module *hd_rms_norm_layer(int64_t size, const hd_norm_layer_opts *opts);

/* hd_group_norm of x [n, channels, ...]; weight and bias [channels]. */
HD_API hd_module *hd_group_norm_layer(int64_t groups, int64_t channels, const hd_norm_layer_opts *opts);

typedef struct hd_batch_norm_layer_opts {
    size_t struct_size;
    double eps;              /* 1e-5 by default */
    double momentum;         /* what a batch weighs in running statistics: 0.1 by default */
    bool cumulative;         /* they are the mean of those of all batches instead, which "num_batches_tracked" counts */
    bool no_running;         /* there are none: batches are normalised by their own, in evaluation too */
    bool no_weight, no_bias; /* a weight of ones, and a bias of zeros, to begin with */
    hd_dtype dtype;          /* the default float by default */
} hd_batch_norm_layer_opts;
/* hd_batch_norm of x [n, channels, ...]: in training by the statistics of the batch, which move the buffers
 * "running_mean" and "running_variance" [channels]; in evaluation by these. */
HD_API hd_module *hd_batch_norm_layer(int64_t channels, const hd_batch_norm_layer_opts *opts);

typedef struct hd_instance_norm_layer_opts {
    size_t struct_size;
    double eps;      /* 1e-5 by default */
    double momentum; /* what a batch weighs in running statistics: 0.1 by default */
    bool running;    /* keeps them, in buffers as hd_batch_norm_layer; evaluation normalises by them */
    bool affine;     /* has weight and bias [channels] */
    hd_dtype dtype;  /* the default float by default */
} hd_instance_norm_layer_opts;
/* hd_instance_norm of x [n, channels, ...]. */
HD_API hd_module *hd_instance_norm_layer(int64_t channels, const hd_instance_norm_layer_opts *opts);

/* ---- dropout: in training alone; in evaluation x itself ---- */
/* hd_dropout of each element. */
HD_API hd_module *hd_dropout_layer(double p);
/* Dropout of whole channels of x [n, channels, 1 to 3 spatial axes]. */
HD_API hd_module *hd_dropout_channels_layer(double p);
/* hd_alpha_dropout, for what selu gives. */
HD_API hd_module *hd_alpha_dropout_layer(double p);

typedef struct hd_embedding_layer_opts {
    size_t struct_size;
    bool pads;             /* padding_index is there: */
    int64_t padding_index; /* the row of zeros to begin with that gets no gradient; negative counts from the end */
    hd_dtype dtype;        /* the default float by default */
} hd_embedding_layer_opts;
/* Rows of weight [count, width] by an index of any shape: [...] -> [..., width]; normal numbers to begin with. */
HD_API hd_module *hd_embedding_layer(int64_t count, int64_t width, const hd_embedding_layer_opts *opts);

typedef struct hd_conv_layer_opts {
    size_t struct_size;
    int64_t stride[3], dilation[3]; /* as in hd_conv_opts */
    hd_padding padding[3];          /* {{1, 1}, {1, 1}}: one on every side of an image */
    int64_t groups;
    int64_t output_padding[3]; /* of transposed ones */
    bool no_bias;
    hd_dtype dtype; /* the default float by default */
} hd_conv_layer_opts;
/* hd_conv with a kernel on 1 to 3 spatial axes: x [n, in, ...] -> [n, out, ...]; a single image is [1, in, ...]. Weight
 * and bias are drawn uniformly within 1 / sqrt(what one output adds up). */
HD_API hd_module *hd_conv_layer(int64_t in, int64_t out, hd_shape kernel, const hd_conv_layer_opts *opts);
HD_API hd_module *hd_conv_transpose_layer(int64_t in, int64_t out, hd_shape kernel, const hd_conv_layer_opts *opts);
HD_API hd_module *hd_max_pool_layer(hd_shape window, const hd_pool_opts *opts);
HD_API hd_module *hd_avg_pool_layer(hd_shape window, const hd_pool_opts *opts);
HD_API hd_module *hd_adaptive_max_pool_layer(hd_shape size);
HD_API hd_module *hd_adaptive_avg_pool_layer(hd_shape size);

/* hd_resize of the last axes to this size. */
HD_API hd_module *hd_resize_layer(hd_shape size, const hd_resize_opts *opts);
/* hd_resize of x [n, channels, 1 to 3 spatial axes] to `scale` times its size, rounded down. */
HD_API hd_module *hd_upsample_layer(double scale, const hd_resize_opts *opts);
/* hd_pad, and hd_pad_with, of the last `count` axes. */
HD_API hd_module *hd_pad_layer(const hd_padding *padding, int count, double value);
HD_API hd_module *hd_pad_with_layer(const hd_padding *padding, int count, hd_pad_mode mode);

typedef struct hd_recurrent_opts {
    size_t struct_size;
    int64_t layers;     /* one on another: 1 by default */
    bool bidirectional; /* a second cell runs from the end, and both results are one behind the other */
    bool batch_first;   /* x and the output are [n, t, ...] */
    bool no_bias;
    double dropout; /* between layers, in training */
    bool relu;      /* of hd_rnn: relu in the place of tanh */
    hd_dtype dtype; /* the default float by default */
} hd_recurrent_opts;
/* Recurrent layers over x [t, n, input]. hd_forward gives each h of the last layer, [t, n, directions hidden], from a
 * state of zeros; hd_forward_all of {x}, or {x, h0}, of an LSTM {x, h0, c0}, gives {output, hn}, of an LSTM {output,
 * hn, cn}: states are [layers directions, n, hidden]. Behind these inputs there may be lengths, i64 [n], any up to t
 * or more: beyond them outputs are 0, and states are those of the last step within, of length 0 those at first.
 * Parameters are "weight_ih_l0" [gates hidden, input], "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", then those of
 * "l0_reverse", "l1", ..., with the gates in PyTorch's order, drawn uniformly within 1 / sqrt(hidden). */
HD_API hd_module *hd_rnn(int64_t input, int64_t hidden, const hd_recurrent_opts *opts);
HD_API hd_module *hd_lstm(int64_t input, int64_t hidden, const hd_recurrent_opts *opts);
HD_API hd_module *hd_gru(int64_t input, int64_t hidden, const hd_recurrent_opts *opts);

typedef struct hd_multihead_attention_opts {
    size_t struct_size;
    bool causal; /* a place sees itself and what is in front of it */
    bool no_bias;
    hd_dtype dtype;                 /* the default float by default */
    int64_t kv_heads;               /* of keys and values, each for heads / kv_heads queries: heads by default */
    int64_t key_width, value_width; /* of what these are made from: width by default */
    double dropout;                 /* of the weights, in training */
    bool rotary;                    /* queries and keys are turned by their places, by hd_rotary */
    double rotary_base;             /* 10000 by default */
} hd_multihead_attention_opts;
/* Attention in heads of width / heads each, with hd_attention between two linear modules: "in" makes q, k and v, one
 * behind the other ("q", "k" and "v" do when key_width or value_width is given), and "out" the result. hd_forward is
 * that of x [..., t, width] to itself. hd_forward_all takes {x}; or {q, k, v} with q [..., t, width], k and v
 * [..., s, width]; or behind these a mask as hd_attention's, which broadcasts to [..., heads, t, s] (a mask of keys
 * alone is [..., 1, 1, s]), and one of keys, bool [..., s], true for those that take part. */
HD_API hd_module *hd_multihead_attention(int64_t width, int64_t heads, const hd_multihead_attention_opts *opts);
/* For a sequence that comes step by step: the attention of x [..., t, width], t often 1, whose first place is
 * `position` (one i64), to itself and what is in front of it. Keys and values of x are written into caches [...,
 * kv_heads, places, width / heads], tensors that a builder has as state; nothing has a gradient. A place beyond them is
 * an error. */
HD_API hd_tensor *hd_multihead_attention_step(hd_module *module, hd_tensor *x, hd_tensor *keys, hd_tensor *values,
                                              hd_tensor *position);
/* x [..., t, d] with element i and element i + d/2 turned by the angle position * base^(-2i/d); positions [t], or NULL:
 * 0, 1, ...; base 0 is 10000. */
HD_API hd_tensor *hd_rotary(hd_tensor *x, hd_tensor *positions, double base);
/* sin and cos of such angles, in turns, to be added to places: [count, width]; base 0 is 10000. */
HD_API hd_tensor *hd_sinusoids(int64_t count, int64_t width, double base, hd_dtype dtype);

typedef struct hd_transformer_opts {
    size_t struct_size;
    int64_t feedforward; /* what the linear modules have between them: 2048 by default */
    double dropout;      /* in training, also of attention's weights: 0.1 by default */
    bool gelu;           /* between the linear modules; relu by default */
    bool norm_first;     /* what a part reads is normalised; by default the sum of that and what it gives */
    bool causal;         /* attention to itself: a place sees what is in front of it */
    bool final_norm;     /* a layer norm behind the last layer */
    bool no_bias;        /* of linear modules and norms */
    int64_t kv_heads;    /* these three as in hd_multihead_attention, rotations in attention to itself */
    bool rotary;
    double rotary_base;
    double eps;     /* 1e-5 by default */
    hd_dtype dtype; /* the default float by default */
} hd_transformer_opts;
/* x [..., t, width] through attention to itself ("self_attn") and linear modules ("linear1", "linear2"), each added to
 * what it reads and normalised ("norm1", "norm2"). hd_forward_all takes {x}, and behind it a mask and a mask of keys as
 * hd_multihead_attention. */
HD_API hd_module *hd_transformer_encoder_layer(int64_t width, int64_t heads, const hd_transformer_opts *opts);
/* Likewise, with attention ("multihead_attn", "norm2", and "norm3" for the linear modules) to memory [..., s, width] in
 * between: hd_forward_all takes {x, memory}, and behind these a mask for x and one for memory. */
HD_API hd_module *hd_transformer_decoder_layer(int64_t width, int64_t heads, const hd_transformer_opts *opts);
/* Such layers one on another, "layers.0", "layers.1", ..., and "norm"; each takes what its layers take. */
HD_API hd_module *hd_transformer_encoder(int64_t width, int64_t heads, int64_t layers, const hd_transformer_opts *opts);
HD_API hd_module *hd_transformer_decoder(int64_t width, int64_t heads, int64_t layers, const hd_transformer_opts *opts);

/* Activations as layers: hd_relu_layer() applies hd_relu, and so on. */
HD_API hd_module *hd_relu_layer(void);
HD_API hd_module *hd_relu6_layer(void);
HD_API hd_module *hd_sigmoid_layer(void);
HD_API hd_module *hd_log_sigmoid_layer(void);
HD_API hd_module *hd_tanh_layer(void);
HD_API hd_module *hd_gelu_layer(void);
HD_API hd_module *hd_gelu_tanh_layer(void);
HD_API hd_module *hd_silu_layer(void);
HD_API hd_module *hd_mish_layer(void);
HD_API hd_module *hd_selu_layer(void);
HD_API hd_module *hd_softsign_layer(void);
HD_API hd_module *hd_hardsigmoid_layer(void);
HD_API hd_module *hd_hardswish_layer(void);
HD_API hd_module *hd_tanhshrink_layer(void);
HD_API hd_module *hd_leaky_relu_layer(double slope);
HD_API hd_module *hd_elu_layer(double alpha);
HD_API hd_module *hd_celu_layer(double alpha);
HD_API hd_module *hd_softshrink_layer(double bound);
HD_API hd_module *hd_hardshrink_layer(double bound);
HD_API hd_module *hd_hardtanh_layer(double low, double high);
HD_API hd_module *hd_threshold_layer(double bound, double value);
HD_API hd_module *hd_softplus_layer(double beta, double limit);
HD_API hd_module *hd_softmax_layer(int axis);
HD_API hd_module *hd_log_softmax_layer(int axis);
/* hd_softmax of -x. */
HD_API hd_module *hd_softmin_layer(int axis);
/* a sigmoid(b), where a and b are the halves of x on an axis. */
HD_API hd_module *hd_glu_layer(int axis);
/* x where x > 0, else x times a slope from [low, high): drawn for each element in training, the middle in evaluation.
 * */
HD_API hd_module *hd_rrelu_layer(double low, double high);

typedef struct hd_prelu_layer_opts {
    size_t struct_size;
    double slope;   /* to begin with: 0.25 by default */
    hd_dtype dtype; /* the default float by default */
} hd_prelu_layer_opts;
/* hd_prelu with slopes that are learned, weight [channels]: one for all of x, or for each channel of x
 * [n, channels, ...]. */
HD_API hd_module *hd_prelu_layer(int64_t channels, const hd_prelu_layer_opts *opts);

/* ---- a module of your own: a struct, a forward function, and what it holds ---- */
typedef struct hd_module_class {
    const char *name; /* "linear" */
    hd_tensor *(*forward)(hd_module *module, hd_tensor *x);
    void (*destroy)(void *state); /* releases the state; NULL when there is nothing to release */
    /* Takes and gives several tensors. A class has this one, or forward, or both; or neither: its modules hold others,
     * and to run them is an error. */
    hd_tensors *(*forward_all)(hd_module *module, hd_tensors *inputs);
    /* The state of `to`, a copy of `from` that has its members already (hd_module_child and hd_module_get find them);
     * NULL: there is no memory for it. Classes without it have no state, or their modules cannot be copied. */
    void *(*copy)(hd_module *to, const hd_module *from);
} hd_module_class;
/* A module of this class; `state` is yours, hd_module_state returns it. The class must outlive the module. */
HD_API hd_module *hd_module_new(const hd_module_class *class_, void *state);
HD_API void *hd_module_state(const hd_module *module);
/* Gives the module a parameter (which then requires a gradient), a buffer, or another module; it holds them from then
 * on. Names are unique within a module, and have no dots, which are for paths. Each returns what it was given. A layer
 * of the library reads what it made itself, by name and kind: of what is added only a parameter "weight" or "bias" is
 * one of its own. Modules may lie 1000 deep in each other. Threads may use one module at once; it is an error to change
 * it meanwhile. */
HD_API hd_tensor *hd_module_add_parameter(hd_module *module, const char *name, hd_tensor *parameter);
HD_API hd_tensor *hd_module_add_buffer(hd_module *module, const char *name, hd_tensor *buffer);
HD_API hd_module *hd_module_add(hd_module *module, const char *name, hd_module *child);

/* ---- losses: of a prediction and a target of one shape, unless they say otherwise; nothing broadcasts but weights.
 * Small floats are computed in f32 and rounded once. Means and gradients are PyTorch's ---- */
typedef enum hd_reduction_kind {
    HD_REDUCTION_DEFAULT,
    HD_REDUCTION_MEAN,
    HD_REDUCTION_SUM,
    HD_REDUCTION_NONE,      /* the loss of each element, or row, by itself */
    HD_REDUCTION_BATCH_MEAN /* of hd_kl_div: the sum over the size of axis 0 */
} hd_reduction_kind;
typedef struct hd_loss_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default: a scalar */
} hd_loss_opts;
/* (prediction - target)^2. */
HD_API hd_tensor *hd_mse(hd_tensor *prediction, hd_tensor *target, const hd_loss_opts *opts);
/* |prediction - target|. */
HD_API hd_tensor *hd_mae(hd_tensor *prediction, hd_tensor *target, const hd_loss_opts *opts);

typedef struct hd_huber_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default */
    double delta;                /* 1 by default, above 0 */
} hd_huber_opts;
/* Of d = prediction - target: d^2 / 2 up to delta, and delta (|d| - delta / 2) behind it. */
HD_API hd_tensor *hd_huber(hd_tensor *prediction, hd_tensor *target, const hd_huber_opts *opts);

typedef struct hd_smooth_l1_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default */
    double beta;                 /* 1 by default; HD_ZERO: hd_mae */
} hd_smooth_l1_opts;
/* Of d = prediction - target: d^2 / (2 beta) up to beta, and |d| - beta / 2 behind it: hd_huber over beta. */
HD_API hd_tensor *hd_smooth_l1(hd_tensor *prediction, hd_tensor *target, const hd_smooth_l1_opts *opts);

typedef struct hd_bce_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default, of as many elements, whatever the weights */
    hd_tensor *weight;           /* factors that broadcast to the prediction's shape; all 1 by default */
} hd_bce_opts;
/* Binary cross-entropy, -(t log p + (1 - t) log(1 - p)), of probabilities p in [0, 1]: logarithms end at -100. NaN for
 * what is no probability. */
HD_API hd_tensor *hd_bce(hd_tensor *prediction, hd_tensor *target, const hd_bce_opts *opts);

typedef struct hd_bce_with_logits_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default, of as many elements, whatever the weights */
    hd_tensor *weight;           /* factors that broadcast to the logits' shape; all 1 by default */
    hd_tensor *pos_weight;       /* factors of t log p, likewise: [classes], how much rarer positive ones are */
} hd_bce_with_logits_opts;
/* hd_bce of sigmoid(logits), which neither overflows nor ends. */
HD_API hd_tensor *hd_bce_with_logits(hd_tensor *logits, hd_tensor *target, const hd_bce_with_logits_opts *opts);

typedef struct hd_cross_entropy_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default, over what is not ignored, by weight */
    hd_tensor *weight;           /* of each class: [classes]; all 1 by default */
    double label_smoothing;      /* this much of the target is spread evenly over the classes */
    bool ignores;                /* rows whose target is ignore_index count for nothing */
    int64_t ignore_index;
    int class_axis; /* of the logits; 0, as by default: the last. 1 for images [n, classes, height, width] */
} hd_cross_entropy_opts;
/* -log softmax(logits)[target]: logits [..., classes]; target: class numbers [...], or probabilities of the logits'
 * shape. */
HD_API hd_tensor *hd_cross_entropy(hd_tensor *logits, hd_tensor *target, const hd_cross_entropy_opts *opts);

typedef struct hd_nll_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* as for hd_cross_entropy, */
    hd_tensor *weight;
    bool ignores;
    int64_t ignore_index;
    int class_axis; /* all of these */
} hd_nll_opts;
/* -logs[target]: logs [..., classes], as of hd_log_softmax; target: class numbers [...]. */
HD_API hd_tensor *hd_nll(hd_tensor *logs, hd_tensor *target, const hd_nll_opts *opts);

typedef struct hd_kl_div_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean of all elements by default; HD_REDUCTION_BATCH_MEAN is the divergence */
    bool log_target;             /* the target has logarithms of probabilities, too */
} hd_kl_div_opts;
/* The Kullback-Leibler divergence, t (log t - prediction): the prediction has logarithms of probabilities. */
HD_API hd_tensor *hd_kl_div(hd_tensor *prediction, hd_tensor *target, const hd_kl_div_opts *opts);

typedef struct hd_hinge_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default */
    double margin;               /* 1 by default; HD_ZERO for 0 */
} hd_hinge_opts;
/* max(0, margin - t prediction), of targets t that are 1 or -1: a support vector machine's. */
HD_API hd_tensor *hd_hinge(hd_tensor *prediction, hd_tensor *target, const hd_hinge_opts *opts);
/* The distance itself where the target is 1, max(0, margin - distance) where it is -1: PyTorch's HingeEmbeddingLoss. */
HD_API hd_tensor *hd_hinge_embedding(hd_tensor *distance, hd_tensor *target, const hd_hinge_opts *opts);

typedef struct hd_cosine_embedding_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default */
    double margin;               /* 0 by default */
} hd_cosine_embedding_opts;
/* 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1: a and b [..., width], target [...].
 */
HD_API hd_tensor *hd_cosine_embedding(hd_tensor *a, hd_tensor *b, hd_tensor *target,
                                      const hd_cosine_embedding_opts *opts);

typedef struct hd_triplet_margin_opts {
    size_t struct_size;
    hd_reduction_kind reduction; /* the mean by default */
    double margin;               /* 1 by default; HD_ZERO for 0 */
    double p;                    /* of the norm: 2 by default */
    double eps;                  /* added to each difference: 1e-6 by default; HD_ZERO for 0 */
    bool swap;                   /* the negative is as far as it is from the nearer of anchor and positive */
} hd_triplet_margin_opts;
/* max(0, |anchor - positive| - |anchor - negative| + margin): all [..., width], the loss of each row [...]. */
HD_API hd_tensor *hd_triplet_margin(hd_tensor *anchor, hd_tensor *positive, hd_tensor *negative,
                                    const hd_triplet_margin_opts *opts);
HD_END_DECLS

#ifdef __cplusplus
extern "C++" { /* braces, unlike the arguments of a function, are evaluated in order */
struct hd_module_array {
    hd_module *result;
    template <class... M> explicit hd_module_array(hd_module *(*make)(hd_module *const *, int64_t), M... modules) {
        hd_module *const all[] = {modules...};
        result = make(all, (int64_t)sizeof...(modules));
    }
};
}
#define HD_MODULES_(make, ...) (hd_module_array{make, __VA_ARGS__}.result)
#else
#define HD_MODULES_(make, ...)                                                                                         \
    make((hd_module *const[]){__VA_ARGS__}, (int64_t)(sizeof((hd_module *const[]){__VA_ARGS__}) / sizeof(hd_module *)))
#endif
#define HD_SEQUENTIAL(...)  HD_MODULES_(hd_sequential, __VA_ARGS__)
#define HD_MODULE_LIST(...) HD_MODULES_(hd_module_list, __VA_ARGS__)

#ifdef HD_CHECKED
#define hd_module_to_dtype(...) HD_CHECKED(2, HD_CHECK_2_OF_2, hd_module_to_dtype, __VA_ARGS__)
#define hd_sinusoids(...)       HD_CHECKED(4, HD_CHECK_4_OF_4, hd_sinusoids, __VA_ARGS__)
#endif

#endif
