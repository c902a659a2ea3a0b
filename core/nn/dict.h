/* SPDX-License-Identifier: MIT */
/* Private to state dicts: the list of entries. */
#ifndef TN_NN_DICT_H
#define TN_NN_DICT_H
#include "io/safetensors.h"
#include "nn/nn.h"

typedef struct {
    char *name;              /* own */
    tn_tensor *t;            /* own: kept; NULL for a record */
    const tn__safe_rec *rec; /* of the dict's file; NULL for a tensor */
} tn__entry;

struct tn_state_dict {
    tn__entry *at;
    size_t n, cap;
    tn__safe *file; /* own; NULL: none */
};

tn__entry *tn__dict_find(const tn_state_dict *sd, const char *name); /* NULL: not there */
tn__entry *tn__dict_add(tn_state_dict *sd, const char *name);
tn__node *tn__dict_leaf(const tn_state_dict *sd, const tn__entry *e, const tn__placement *place);
#endif
