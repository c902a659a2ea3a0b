/* SPDX-License-Identifier: MIT */
/* Checks 35 to 38: order, timelines, faults. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void chain(void)
{
    static kern k;
    enum { N = 10000 };
    need_exec();
    if (!dialects()[0]) skip("the device declares no dialect");
    kern_plus(&k);
    tnp_prog *p = k_load(&k);
    tnp_buf *b[2] = {buf_new(64, TNP_MEM_ZERO), buf_new(64, TNP_MEM_ZERO)};
    const size_t len[2] = {64, 64};
    const uint32_t grid[3] = {16, 1, 1};
    for (int i = 0; i < N; i++) {
        tnp_buf *pair[2] = {b[i & 1], b[~i & 1]};
        const bool last = i + 1 == N;
        worked(k_launch(queue, p, &k, pair, len, (uint64_t[]){(uint64_t)(i % 3)}, grid,
                        last ? signal_next() : NULL, NULL),
               "launch");
    }
    settle();
    int v[16];
    get(b[(N - 1) & 1], 0, v, sizeof v);
    for (int i = 0; i < 16; i++)
        NEED(v[i] == 9999, "10,000 launches in one queue: element %d is %d, not 9999", i, v[i]);
}

static void *signal_later(void *arg)
{
    (void)arg;
    char text[200] = "";
    tnp_err e = {.size = sizeof e, .cap = sizeof text, .msg = text};
    nap_ms(50);
    if (ops->sem_signal(dev, arg, 7, &e) < 0) fail("sem_signal: %s", text);
    return NULL;
}

/* One queue makes a value, three use it behind a wait, one adds up behind three waits. */
static void fans(void)
{
    static kern k;
    need_dev();
    kern_plus(&k);
    tnp_queue *q[4];
    tnp_sem *s[4];
    for (int i = 0; i < 4; i++) {
        worked(ops->queue_new(dev, 0, &q[i], fresh()), "queue_new");
        worked(ops->sem_new(dev, 0, &s[i], fresh()), "sem_new");
    }
    tnp_buf *b = buf_new(64, TNP_MEM_ZERO), *c = buf_new(64, TNP_MEM_ZERO);
    char in[16] = "fifteen letters", out[64];
    for (int round = 1; round <= 50; round++) {
        in[0] = (char)round;
        const tnp_point made = {s[0], (uint64_t)round};
        tnp_point used[3];
        tnp_sync first = {.nsignal = 1, .signal = &made};
        worked(ops->copy_in(dev, q[0], (tnp_ref){b, 0, 16}, in, &first, fresh()), "copy_in");
        for (int i = 0; i < 3; i++) {
            used[i] = (tnp_point){s[i + 1], (uint64_t)round};
            const tnp_sync x = {.nwait = 1, .nsignal = 1, .wait = &made, .signal = &used[i]};
            worked(ops->copy(dev, q[i + 1], (tnp_ref){c, (uint64_t)(16 * i), 16},
                             (tnp_ref){b, 0, 16}, &x, fresh()),
                   "copy behind a wait");
        }
        const tnp_point done = {sem, ++sem_value};
        const tnp_sync last = {.nwait = 3, .nsignal = 1, .wait = used, .signal = &done};
        worked(ops->copy_out(dev, q[0], out, (tnp_ref){c, 0, 48}, &last, fresh()),
               "copy_out behind three waits");
        settle();
        for (int i = 0; i < 48; i++)
            NEED(out[i] == in[i % 16], "round %d: byte %d came before what it waits for", round, i);
    }
    const uint64_t t0 = now_ns();
    worked(ops->sem_wait(dev, s[0], 1, UINT64_MAX, fresh()), "a wait for a passed value");
    late("a wait for a passed value", now_ns() - t0, 1000000);
    if (!(caps.flags & TNP_F_WAIT_BEFORE_SIGNAL)) {
        note("no wait before signal");
        return;
    }
    tnp_sem *later;
    pthread_t t;
    worked(ops->sem_new(dev, 0, &later, fresh()), "sem_new");
    const tnp_point w = {later, 7};
    const tnp_point done = {sem, ++sem_value};
    const tnp_sync x = {.nwait = 1, .nsignal = 1, .wait = &w, .signal = &done};
    NEED(!pthread_create(&t, NULL, signal_later, later), "no thread");
    worked(ops->copy(dev, q[0], (tnp_ref){c, 0, 16}, (tnp_ref){b, 0, 16}, &x, fresh()),
           "a wait before its signal");
    settle();
    pthread_join(t, NULL);
}

static void limits_of_time(void)
{
    need_dev();
    tnp_sem *s;
    worked(ops->sem_new(dev, 5, &s, fresh()), "sem_new");
    worked(ops->sem_wait(dev, s, 5, 0, fresh()), "a wait for the initial value");
    worked(ops->sem_wait(dev, s, 0, 0, fresh()), "a wait for 0");
    for (int ms = 0; ms <= 40; ms += 20) {
        const uint64_t t0 = now_ns(), limit = (uint64_t)ms * 1000000;
        refused(ops->sem_wait(dev, s, 6, limit, fresh()), TNP_E_TIMEOUT, "a wait that nobody ends");
        const uint64_t t = now_ns() - t0;
        NEED(t >= limit, "a wait of %d ms ends after %llu us", ms, (unsigned long long)t / 1000);
        late("a wait's limit", t, limit + 20000000);
    }
    refused(ops->sem_signal(dev, s, 5, fresh()), TNP_E_ARG, "a signal that does not rise");
    refused(ops->sem_signal(dev, s, 4, fresh()), TNP_E_ARG, "a signal that falls");
    worked(ops->sem_signal(dev, s, UINT64_MAX - 1, fresh()), "a signal far ahead");
    worked(ops->sem_wait(dev, s, UINT64_MAX - 1, 0, fresh()), "a wait far ahead");
    tnp_queue *q;
    refused(ops->queue_new(dev, 1u << 31, &q, fresh()), TNP_E_UNSUPPORTED, "unknown queue flags");
    ops->sem_free(dev, s);
}

/* Another device goes on. */
static void second_device(void)
{
    tnp_dev *d;
    const tnp_dev_ops *o;
    tnp_buf *b;
    tnp_queue *q;
    char out[8] = "";
    const tnp_alloc a = {.size = sizeof a, .bytes = 64};
    if (dev_count < 2) return;
    worked(root->open(1, &d, &o, fresh()), "open of device 1 after a trap on device 0");
    worked(o->buf_alloc(d, &a, &b, fresh()), "buf_alloc on device 1");
    worked(o->queue_new(d, 0, &q, fresh()), "queue_new on device 1");
    worked(o->copy_in(d, q, (tnp_ref){b, 0, 8}, "go on...", NULL, fresh()), "copy_in on device 1");
    worked(o->copy_out(d, q, out, (tnp_ref){b, 0, 8}, NULL, fresh()), "copy_out on device 1");
    worked(o->flush(d, q, fresh()), "flush on device 1");
    o->queue_free(d, q); /* drains */
    NEED(!memcmp(out, "go on...", 8), "after a trap on device 0 device 1 loses bytes");
    o->buf_free(d, b);
    o->close(d);
}

/* Stores at an index that is far outside. */
static void faults(void)
{
    static kern k, fine;
    need_exec();
    if (!(caps.flags & TNP_F_CONTAINS_FAULTS))
        skip("faults are not contained (TNP_F_CONTAINS_FAULTS)");
    k_begin(&k, "check_trap");
    k_buf(&k, TNP_I32, TNP_ACCESS_WRITE);
    const int at = k_const(&k, TNP_I64, INT64_C(1) << 44), v = k_const(&k, TNP_I32, 1);
    k_row(&k, "store", TNP_I32, at, v, -1, 0);
    tnp_prog *p = k_load(&k);
    tnp_buf *b[2] = {buf_new(64, TNP_MEM_ZERO), buf_new(64, TNP_MEM_ZERO)};
    const size_t len[2] = {64, 64};
    const uint32_t grid[3] = {1, 1, 1};
    tnp_rc rc = k_launch(queue, p, &k, b, len, NULL, grid, signal_next(), NULL);
    const bool at_once = rc < 0;
    if (!at_once) rc = ops->sem_wait(dev, sem, sem_value, UINT64_C(5000000000), fresh());
    NEED(rc < 0 && rc != TNP_E_TIMEOUT, "a store 64 TiB outside its buffer is no error: rc %d", rc);
    NEED(err_text[0], "a trapping kernel: rc %d without a message", rc);
    second_device();
    if (!at_once) {
        refused(ops->sem_wait(dev, sem, sem_value, 0, fresh()), rc,
                "a second wait for failed work");
        return; /* the queue stays failed: only its own objects */
    }
    sem_value--;
    kern_plus(&fine);
    k_run(k_load(&fine), &fine, b, len, (uint64_t[]){3}, 4, 1, 1);
    int got[4];
    get(b[0], 0, got, sizeof got);
    NEED(got[3] == 3, "after a trap the device computes %d", got[3]);
}

const check_row sync_checks[] = {
    {35, "sync", "10,000 launches in one queue run in order", chain, 60},
    {36, "sync", "fan out and fan in over queues; passed values return at once", fans, 60},
    {37, "sync", "waits end in time; a signal that does not rise is ARG", limits_of_time, 0},
    {38, "sync", "a trapping kernel is an error, and the process lives", faults, 60},
    {0}};
