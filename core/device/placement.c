/* SPDX-License-Identifier: MIT */
/*
 * Placements, interned for the life of the process, and values: one buffer a device of a placement.
 * The list of placements is short and under a lock; a placement once found is read without it.
 */
#include "device/module.h"
#include <string.h>

typedef struct item {
    struct item *next;
    tn__placement p;
} item;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static item *items;
static _Atomic(const tn__placement *) ones[TN_MAX_DEVICES];

static bool same(const tn__placement *p, tn__device *const *dev, int n, int axis)
{
    return p->n == n && p->axis == axis && !memcmp(p->dev, dev, (size_t)n * sizeof *dev);
}

const tn__placement *tn__placement_get(tn__device *const *dev, int n, int axis)
{
    if (n < 1 || n > (int)TN_LEN(items->p.dev)) {
        tn__fail(TN_EVALUE, "placement: %d devices: 1 to %zu can be named", n,
                 TN_LEN(items->p.dev));
        return NULL;
    }
    if (n == 1) axis = -1;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (dev[a] == dev[b]) {
                tn__fail(TN_EVALUE, "placement: %s is named twice: name each device once",
                         tn__device_name(dev[a]));
                return NULL;
            }
    pthread_mutex_lock(&lock);
    item *i = items;
    while (i && !same(&i->p, dev, n, axis)) i = i->next;
    if (!i && (i = tn__calloc(1, sizeof *i))) {
        i->p.n = n;
        i->p.axis = axis;
        memcpy(i->p.dev, dev, (size_t)n * sizeof *dev);
        i->next = items;
        items = i;
    }
    pthread_mutex_unlock(&lock);
    return i ? &i->p : NULL;
}

const tn__placement *tn__placement_one(tn__device *d)
{
    const tn__placement *p = atomic_load_explicit(&ones[d->id], memory_order_acquire);
    if (p) return p;
    p = tn__placement_get(&d, 1, -1);
    atomic_store_explicit(&ones[d->id], p, memory_order_release);
    return p;
}

void tn__placements_forget(void)
{
    for (int i = 0; i < TN_MAX_DEVICES; i++) atomic_store(&ones[i], NULL);
    while (items) {
        item *i = items;
        items = i->next;
        tn__free(i);
    }
}

static tn__value *empty(const tn__placement *p)
{
    tn__value *v = tn__calloc(1, sizeof *v + (size_t)p->n * sizeof *v->buf);
    if (!v) return NULL;
    atomic_store(&v->refs, 1);
    v->place = p;
    return v;
}

tn__value *tn__value_new(const tn__placement *p, size_t bytes)
{
    tn__value *v = empty(p);
    for (int i = 0; v && i < p->n; i++)
        if (!(v->buf[i] = tn__buffer_new(p->dev[i], bytes))) {
            tn__value_unref(v);
            return NULL;
        }
    return v;
}

tn__value *tn__value_of(tn__buffer *b)
{
    const tn__placement *p = tn__placement_one(tn__buffer_device(b));
    tn__value *v = p ? empty(p) : NULL;
    if (v)
        v->buf[0] = b;
    else
        tn__buffer_unref(b);
    return v;
}

void tn__value_ref(tn__value *v) { atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed); }

void tn__value_unref(tn__value *v)
{
    if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < v->place->n; i++) tn__buffer_unref(v->buf[i]);
    tn__free(v);
}
